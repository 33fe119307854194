"""How a proxy is written, checked and named: model/proxy.py."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.errors import InvalidProxy
from wa_orchestrator.model.proxy import ProxyAddress, parse_proxy

SECRET = "invented-s3cret"


def refused(text: str) -> str:
    with pytest.raises(InvalidProxy) as caught:
        parse_proxy(text)
    return caught.value.message


def test_full_address_is_read() -> None:
    assert parse_proxy(" socks5h://user:pass@Proxy.Example:1080 ") == ProxyAddress(
        "proxy.example", 1080, "user", "pass"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("socks5h://proxy.example:1080", ProxyAddress("proxy.example", 1080)),
        ("SOCKS5H://10.0.0.1:1/", ProxyAddress("10.0.0.1", 1)),
        ("socks5h://[2001:DB8::1]:65535", ProxyAddress("2001:db8::1", 65535)),
        ("socks5h://u@my_proxy:1080", ProxyAddress("my_proxy", 1080, "u", "")),
        ("socks5h://u:a:b@h:1080", ProxyAddress("h", 1080, "u", "a:b")),
        ("socks5h://u%40x:p%2F%3A@h:1080", ProxyAddress("h", 1080, "u@x", "p/:")),
        ("socks5h://@h:1080", ProxyAddress("h", 1080)),
        ("socks5h://h:01080", ProxyAddress("h", 1080)),
    ],
)
def test_odd_but_right_addresses_are_read(text: str, expected: ProxyAddress) -> None:
    assert parse_proxy(text) == expected


@pytest.mark.parametrize("rest", [f"u:{SECRET}@h:1", "h", "", f"u:{SECRET}@h:1/path", f"u:{SECRET}@x@h:1"])
def test_socks5_is_refused_with_the_reason_whatever_follows(rest: str) -> None:
    message = refused(f"socks5://{rest}")
    assert "Write socks5h:// instead" in message
    assert SECRET not in message


@pytest.mark.parametrize("scheme", ["http", "https", "socks4", "socks4a", "HTTP"])
@pytest.mark.parametrize("rest", [f"u:{SECRET}@h:1", f"u:{SECRET}@h:8080/path?x=1", ""])
def test_other_schemes_are_named_and_refused(scheme: str, rest: str) -> None:
    message = refused(f"{scheme}://{rest}")
    assert f"{scheme.lower()}:// is not supported" in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a proxy address"),
        ("proxy.example:1080", "not a proxy address"),
        ("socks5h://", "host is missing"),
        ("socks5h://:1080", "host is missing"),
        (f"socks5h://u:{SECRET}@h", "port is missing"),
        (f"socks5h://u:{SECRET}@h:", "port is missing"),
        (f"socks5h://u:{SECRET}@h:0", "port must be a number"),
        (f"socks5h://u:{SECRET}@h:65536", "port must be a number"),
        (f"socks5h://u:{SECRET}@h:-1", "port must be a number"),
        (f"socks5h://u:{SECRET}@h:+80", "port must be a number"),
        (f"socks5h://u:{SECRET}@h:1e3", "port must be a number"),
        (f"socks5h://u:{SECRET}@h:１０８０", "port must be a number"),
        (f"socks5h://u:{SECRET}@h:99999999999999999999", "port must be a number"),
        ("socks5h://2001:db8::1:1080", "Put an IPv6 address in brackets"),
        ("socks5h://[2001:db8::zz]:1080", "not a proxy address"),
        ("socks5h://[1:2]:1080", "IPv6 address in brackets is not valid"),
        ("socks5h://300.1.1.1:1080", "IPv4 address is not valid"),
        ("socks5h://1.2.3:1080", "IPv4 address is not valid"),
        ("socks5h://-bad:1080", "host name is not valid"),
        ("socks5h://a..b:1080", "host name is not valid"),
        (f"socks5h://{'a' * 64}:1080", "host name is not valid"),
        ("socks5h://ho st:1080", "not a proxy address"),
        (f"socks5h://:{SECRET}@h:1080", "password but no user name"),
        (f"socks5h://u:{SECRET}@x@h:1080", "write @ as %40"),
        (f"socks5h://u:{SECRET}/x@h:1080", "/ as %2F"),
        (f"socks5h://u:{SECRET}@h:1080/path", "not a proxy address"),
        (f"socks5h://u:{SECRET}%ff@h:1080", "must be UTF-8"),
        (f"socks5h://\ud800:{SECRET}@h:1080", "must be UTF-8"),
        (f"socks5h://u:{SECRET * 20}@h:1080", "at most 255 bytes"),
        (f"{SECRET}://u:p@h:1080", "This kind of proxy is not supported"),
    ],
)
def test_wrong_addresses_get_a_sentence_without_the_password(text: str, words: str) -> None:
    message = refused(text)
    assert words in message
    assert SECRET not in message


def test_error_hides_its_cause_too() -> None:
    with pytest.raises(InvalidProxy) as caught:
        parse_proxy(f"socks5h://u:{SECRET}%ff@h:1080")
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


_credential = st.text(st.characters(codec="utf-8"), max_size=60)
_host = st.one_of(
    st.from_regex(r"\A[a-z0-9_]([a-z0-9-]{0,20}[a-z0-9])?(\.[a-z]([a-z0-9-]{0,20}[a-z0-9])?){1,3}\Z"),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(str),
)
_addresses = st.builds(
    lambda host, port, user, password: ProxyAddress(host, port, user, password if user else ""),
    _host, st.integers(1, 65535), _credential, _credential,
)  # fmt: skip


@given(_addresses)
def test_every_address_survives_being_written_and_read(address: ProxyAddress) -> None:
    assert parse_proxy(address.url) == address


@given(st.text(max_size=80), st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=12, max_size=20))
def test_no_text_at_all_breaks_the_reader_or_shows_the_password(rest: str, secret: str) -> None:
    for text in (f"socks5h://u:{secret}@{rest}", f"{rest}://u:{secret}@h:1", f"socks5h://u:{secret}{rest}@h:1"):
        try:
            parse_proxy(text)
        except InvalidProxy as error:
            assert secret not in error.message  # noqa: PT017 - whether it raises depends on the drawn text


@given(_addresses, _credential)
def test_id_does_not_depend_on_the_password(address: ProxyAddress, other: str) -> None:
    assert replace(address, password=other).proxy_id == address.proxy_id


def test_id_tells_users_hosts_and_ports_apart() -> None:
    base = ProxyAddress("h", 1080, "u", SECRET)
    ids = {base.proxy_id} | {replace(base, **{key: value}).proxy_id  # type: ignore[arg-type]
                             for key, value in {"host": "i", "port": 1081, "user": "v"}.items()}  # fmt: skip
    assert len(ids) == 4
    assert all(one.startswith("px_") and SECRET not in one for one in ids)


def test_password_is_not_in_the_representation() -> None:
    assert SECRET not in repr(ProxyAddress("h", 1080, "u", SECRET))
