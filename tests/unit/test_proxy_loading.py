"""Proxies from text, in our own form and in vendors' forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.proxies.loading import LineError, parse_line, parse_lines

SECRET = "invented-s3cret"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("socks5h://u:p%40@h.example:1080", ProxyAddress("h.example", 1080, "u", "p@")),
        ("h.example:1080:u:p", ProxyAddress("h.example", 1080, "u", "p")),
        ("u:p@h.example:1080", ProxyAddress("h.example", 1080, "u", "p")),
        ("10.0.0.1:1080", ProxyAddress("10.0.0.1", 1080)),
        ("[2001:db8::1]:1080:u:p", ProxyAddress("2001:db8::1", 1080, "u", "p")),
        ("u:p@[2001:db8::1]:1080", ProxyAddress("2001:db8::1", 1080, "u", "p")),
        # vendors' logins are taken as they are
        ("h:1080:u:p:q%41#/@", ProxyAddress("h", 1080, "u", "p:q%41#/@")),
        ("u:p@q:r@h:1080", ProxyAddress("h", 1080, "u", "p@q:r")),
        ("h:1080:user-country-us-session-1:p", ProxyAddress("h", 1080, "user-country-us-session-1", "p")),
    ],
)
def test_each_form_is_understood(line: str, expected: ProxyAddress) -> None:
    assert parse_line(line) == expected


def test_comments_blank_lines_windows_ends_and_byte_order_mark_are_skipped() -> None:
    text = "\ufeff# my proxies\r\n\r\n  h:1:u:p  # the first\r\n\tu:p#x@h:2\r\n"
    parsed = parse_lines(text)
    assert parsed.errors == []
    assert parsed.good == [ProxyAddress("h", 1, "u", "p"), ProxyAddress("h", 2, "u", "p#x")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"socks5://u:{SECRET}@h:1080", "Write socks5h:// instead"),
        (f"http://u:{SECRET}@h:1080", "http:// is not supported"),
        (f"socks4://u:{SECRET}@h:1080", "socks4:// is not supported"),
        (f"h:port:u:{SECRET}", "This is not a proxy address. Write socks5h://"),
        (f"u:{SECRET}", "This is not a proxy address"),
        (SECRET, "This is not a proxy address"),
        (f"h:70000:u:{SECRET}", "port must be a number"),
        (f"999.1.1.1:1080:u:{SECRET}", "IPv4 address is not valid"),
        (f"h:1080:\ud800:{SECRET}", "must be UTF-8"),
    ],
)
def test_wrong_line_is_reported_by_number_without_its_login(line: str, words: str) -> None:
    parsed = parse_lines(f"# first\n{line}\nh:1:u:p")
    assert [error.line for error in parsed.errors] == [2]
    assert words in parsed.errors[0].message
    assert SECRET not in parsed.errors[0].message
    assert len(parsed.good) == 1


def test_proxy_that_comes_twice_is_taken_once_whatever_its_form() -> None:
    parsed = parse_lines("h:1080:u:p\nu:p@H:1080\nsocks5h://u:p@h:1080")
    assert len(parsed.good) == 1
    assert parsed.errors == []


def test_same_proxy_with_another_password_is_an_error_not_a_silent_choice() -> None:
    parsed = parse_lines(f"h:1080:u:p\n\nh:1080:u:{SECRET}")
    assert parsed.good == [ProxyAddress("h", 1080, "u", "p")]
    message = "This is the proxy of line 1 with another password. Keep the right one of the two."
    assert parsed.errors == [LineError(3, message)]


@given(st.text())
def test_no_text_breaks_the_reader(text: str) -> None:
    parsed = parse_lines(text)
    assert len(parsed.good) + len(parsed.errors) <= text.count("\n") + 1


_visible = st.characters(codec="utf-8", exclude_categories=["Z", "C"])


@given(st.text(_visible.filter(lambda c: c not in ":@"), min_size=1, max_size=30), st.text(_visible, max_size=30))
def test_any_login_in_a_vendors_form_is_kept_exactly(user: str, password: str) -> None:
    assert parse_line(f"{user}:{password}@h.example:1080") == ProxyAddress("h.example", 1080, user, password)
