"""Logs never show credentials, whatever is logged and however."""

from __future__ import annotations

import io
import json
import logging
import time
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from wa_orchestrator.logs import configure_logs, short_phone, without_credentials

SECRET = "s3cr3t-pass"
URL = f"socks5h://user:{SECRET}@proxy.example:1080"


@pytest.fixture(params=["console", "json"])
def out(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    kept = structlog.get_config()
    stream = io.StringIO()
    configure_logs(level="debug", as_json=request.param == "json", stream=stream)
    yield stream
    structlog.configure(**kept)
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (URL, "socks5h://…@proxy.example:1080"),
        (
            f"tried {URL}, then http://other.example/",
            "tried socks5h://…@proxy.example:1080, then http://other.example/",
        ),
        ("redis://:pw@127.0.0.1:6379/0", "redis://…@127.0.0.1:6379/0"),
        ("http://plain.example/path", "http://plain.example/path"),
        ("mail@example.org", "mail@example.org"),
        ("nothing here", "nothing here"),
    ],
)
def test_credentials_are_taken_out_of_urls(text: str, clean: str) -> None:
    assert without_credentials(text) == clean


@pytest.mark.parametrize(
    "text",
    ["x" * 1_000_000, "a://" * 250_000, "a://a" * 200_000 + "@", "x" * 1_000_000 + "://a@b", "@" * 1_000_000 + "://"],
)
def test_a_text_made_to_keep_us_busy_does_not(text: str) -> None:
    began = time.process_time()
    without_credentials(text)
    assert time.process_time() - began < 1.0, "usual: a few milliseconds"


_PASSWORDS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="\"'"), min_size=8, max_size=30
)


@given(_PASSWORDS)
@example("p@ss/word@")
@example("a:b@c/d?e#")
def test_no_password_survives_not_even_one_that_should_have_been_encoded(password: str) -> None:
    assert password not in without_credentials(f"before socks5h://user:{password}@h.example:1080 after")


def test_a_field_with_credentials_is_cleaned(out: io.StringIO) -> None:
    structlog.get_logger().warning(
        "proxy_failed", url=URL, lines=[URL], deep={"a": {"b": (URL,)}}, error=ValueError(URL)
    )
    assert "proxy_failed" in out.getvalue()
    assert SECRET not in out.getvalue()


def test_a_traceback_with_credentials_is_cleaned(out: io.StringIO) -> None:
    try:
        raise ValueError(f"cannot use {URL}")
    except ValueError:
        structlog.get_logger().exception("request_failed")
    assert "ValueError" in out.getvalue()
    assert SECRET not in out.getvalue()


def test_a_librarys_own_log_is_cleaned(out: io.StringIO) -> None:
    try:
        raise OSError(URL)
    except OSError:
        logging.getLogger("some.library").exception("connect to %s failed", URL)
    assert "connect to" in out.getvalue()
    assert SECRET not in out.getvalue()


def test_json_lines_are_json(out: io.StringIO) -> None:
    structlog.get_logger().info("hello", session_id="worker_1")
    line = out.getvalue().strip()
    if line.startswith("{"):
        found = json.loads(line)
        assert (found["event"], found["session_id"], found["level"]) == ("hello", "worker_1", "info")
    else:
        assert "hello" in line
        assert "worker_1" in line


@given(st.from_regex(r"[0-9]{1,15}", fullmatch=True))
def test_a_phone_in_logs_cannot_be_called(phone: str) -> None:
    shown = short_phone(phone)
    assert "…" in shown
    assert len(shown.replace("…", "")) <= 7
