"""No secret is in the repository, and the scan that says so would find one."""

from __future__ import annotations

import importlib.util
import secrets
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scanner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("secret_scan", ROOT / "scripts" / "secret_scan.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_repository_holds_no_secrets(scanner: ModuleType) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout: git does not say which files are ours")
    files = scanner.tracked_files()
    assert len(files) > 300
    assert scanner.scan(files) == []


# put together here, so that the scan does not find this file
@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("private key", "-----BEGIN " + "OPENSSH PRIVATE KEY-----"),
        ("Telegram bot token", f"TELEGRAM={'1' * 9}:{'Aa1' * 11}Bb"),
        ("GitHub token", "x = 'gh" + f"p_{'a1B2' * 9}'"),
        ("AWS key", "AKI" + "A" + "ABCDEFGH12345678"),
        ("Google key", "AI" + "za" + "a1B2c" * 7),
        ("Slack token", "xo" + "xb-123456789012-abcdefgh"),
        ("npm or PyPI token", "np" + "m_" + "a1B2" * 9),
        ("JSON web token", "ey" + "J" + "a" * 20 + ".ey" + "J" + "b" * 20 + "." + "c" * 20),
        ("API key of this program", "curl -H 'X-Api-Key: wa" + "_kZ3vQ8tXm2B7Lp0R4yWn9c1D5fG6h_J7'"),
        ("WhatsApp credentials", '"advSecretKey": "' + "kZ3vQ8tXm2B7" * 3 + 'a1b2c3d="'),
        ("assigned secret", "WEBHOOK_" + "SECRET=" + "kZ3vQ8tXm2B7Lp0R4yWn9"),
    ],
)
def test_a_secret_would_be_found(scanner: ModuleType, kind: str, line: str) -> None:
    assert (2, kind) in list(scanner.findings(f"first line\n{line}\n"))


def test_our_own_new_keys_would_be_found(scanner: ModuleType) -> None:
    made = [f"wa_{secrets.token_urlsafe(24)}" for _ in range(50)]
    assert sum(bool(list(scanner.findings(f"key {key} here"))) for key in made) >= 45, "a few look like words by chance"


def test_words_and_invented_secrets_are_not(scanner: ModuleType) -> None:
    for line in (
        'WEBHOOK_SECRET = "test-webhook-secret"',
        "proxy = socks5h://user:pass@proxy.example:1080",
        "token: wa_dispatch_lateness_seconds_count_x",
        "password=<a long random word>",
        "API_KEY=${API_KEY:?set it in .env first please}",
    ):
        assert list(scanner.findings(line)) == [], line
