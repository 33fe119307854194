"""Settings: every name of the specification, its default, and a sentence for every wrong value."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.env_file import env_example, read_env_file
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.proxies.sources import configured_proxies
from wa_orchestrator.settings import Settings, described_settings, load_settings

ROOT = Path(__file__).resolve().parents[2]
# as the specification names them
SPECIFIED = {
    "API_KEY": "",
    "WEBHOOK_SECRET": "",
    "REDIS_URL": "",
    "ORCH_PORT": "3001",
    "MAX_SESSIONS_PER_PROXY": "4",
    "MAX_SESSIONS_PER_PHONE": "4",
    "PROVISIONING_INTERVAL_MS": "2000",
    "MONITOR_INTERVAL_MS": "30000",
    "WATCHDOG_INTERVAL_MS": "60000",
    "PING_TIMEOUT_MS": "180000",
    "TELEGRAM_BOT_TOKEN": "",
    "TELEGRAM_CHAT_ID": "",
    "SESSIONS_DIR": "./sessions",
    "BACKUPS_DIR": "./backups",
    "MAX_BACKUPS": "7",
    "ENABLE_KEEP_ALIVE": "true",
    "TIMEZONE": "Asia/Jerusalem",
}


def test_every_name_of_the_specification_is_there_with_its_default() -> None:
    known = {name: default for _, name, default, _ in described_settings()}
    assert {name: known.get(name) for name in SPECIFIED} == SPECIFIED


def test_every_setting_is_named_once_and_explained() -> None:
    described = described_settings()
    names = [name for _, name, _, _ in described]
    assert len(names) == len(set(names)) == len([f for f in fields(Settings) if f.metadata])
    assert all(help_.endswith(".") for _, _, _, help_ in described)


def test_env_example_and_the_settings_are_equal() -> None:
    text = (ROOT / "env.example").read_text(encoding="utf-8")
    assert text == env_example(), "run: .venv/bin/python scripts/make_env_example.py"


def test_env_example_lists_every_setting_with_default_and_help() -> None:
    lines = env_example().splitlines()
    for _, name, default, help_ in described_settings():
        place = lines.index(f"{name}={default}")
        assert lines[place - 1] == f"# {help_}"


def test_env_example_used_as_it_is_changes_nothing() -> None:
    assert load_settings(read_env_file(ROOT / "env.example")) == load_settings({})


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        load_settings({}).port = 1  # type: ignore[misc]


def test_empty_means_the_default() -> None:
    assert load_settings({"ORCH_PORT": " ", "ENABLE_KEEP_ALIVE": ""}) == load_settings({})


def test_the_command_line_wins_over_the_environment() -> None:
    assert load_settings({"ORCH_PORT": "5"}, port=6).port == 6
    assert load_settings({"ORCH_PORT": "5"}, port=None).port == 5


_WRONG = [
    ("ORCH_PORT", "http"),
    ("ORCH_PORT", "65536"),
    ("ORCH_PORT", "-1"),
    ("MAX_SESSIONS_PER_PROXY", "0"),
    ("MAX_SESSIONS_PER_PHONE", "four"),
    ("PING_TIMEOUT_MS", "1.5"),
    ("ENABLE_KEEP_ALIVE", "maybe"),
    ("LOG_LEVEL", "loud"),
    ("STORE_FSYNC", "never"),
    ("TIMEZONE", "Mars/Olympus"),
    ("TIMEZONE", "../../etc/passwd"),
    ("REDIS_URL", "http://localhost"),
    ("PROXY_CHECK_TARGET", "web.whatsapp.com"),
    ("PROXY_CHECK_TARGET", "host:0"),
]


@pytest.mark.parametrize(("name", "value"), _WRONG)
def test_a_wrong_value_is_told_with_the_name_of_the_setting(name: str, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({name: value})
    sentence = str(caught.value)
    assert sentence.startswith(name)
    assert sentence.endswith(".")


@given(st.sampled_from(sorted(name for _, name, _, _ in described_settings())), st.text(max_size=30))
def test_any_value_is_read_or_refused_by_name(name: str, value: str) -> None:
    try:
        load_settings({name: value})
    except SettingsError as error:
        sentence = str(error)
    else:
        return
    assert sentence.startswith(name)


def test_a_wrong_store_address_is_refused_without_repeating_its_password() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"REDIS_URL": "reddis://:s3cr3t@host"})
    assert "s3cr3t" not in str(caught.value)


def test_proxies_come_in_the_order_of_their_numbers() -> None:
    environ = {f"PROXY_URL_{n}": f"socks5h://h{n}.example:1080" for n in (10, 2, 1)}
    environ["PROXY_URL_3"] = ""
    environ["PROXY_URL_X"] = "not one of them"
    found = [address.host for address in configured_proxies(load_settings(environ))]
    assert found == ["h1.example", "h2.example", "h10.example"]


def test_a_wrong_proxy_stops_the_start_without_its_password() -> None:
    settings = load_settings({"PROXY_URL_1": "socks5://user:s3cr3t@h.example:1080"})
    with pytest.raises(SettingsError) as caught:
        configured_proxies(settings)
    assert "PROXY_URL" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


def test_folders_are_below_the_data_folder_unless_absolute(tmp_path: Path) -> None:
    settings = load_settings({"DATA_DIR": str(tmp_path), "BACKUPS_DIR": "/elsewhere"})
    assert settings.sessions_path == tmp_path / "sessions"
    assert settings.backups_path == Path("/elsewhere")


def test_an_env_file_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# comment\n\nexport API_KEY='a b'\nORCH_PORT = 5\nPROXY_FILE=\"x=y\"\n")
    assert read_env_file(file) == {"API_KEY": "a b", "ORCH_PORT": "5", "PROXY_FILE": "x=y"}
    assert read_env_file(tmp_path / "nothing") == {}


@pytest.mark.parametrize("line", ["API_KEY", "API KEY=1", "=x", "1A=x"])
def test_a_line_that_is_no_setting_is_told_by_its_number(tmp_path: Path, line: str) -> None:
    file = tmp_path / ".env"
    file.write_text(f"A=1\n{line}\n")
    with pytest.raises(SettingsError, match="line 2"):
        read_env_file(file)
