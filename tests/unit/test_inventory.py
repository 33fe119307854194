"""Counting the stock and reading profiles, without a store."""

from __future__ import annotations

import pytest

from wa_orchestrator.errors import InvalidPhone, InvalidProxy
from wa_orchestrator.inventory.profiles import Profile, parse_profile, parse_profiles
from wa_orchestrator.inventory.stock import count_stock
from wa_orchestrator.model.proxy import Proxy, ProxyAddress, ProxyStatus
from wa_orchestrator.model.session import Session, Status, Wanted

OFF = {"freeSlots": 0, "healthyProxies": 0, "connectedSessions": 0, "profiles": 0}
ADDRESS = ProxyAddress("proxy.example", 1080, "user", "pass")


def proxy(*sessions: str, status: ProxyStatus = ProxyStatus.ACTIVE, draining: bool = False) -> Proxy:
    return Proxy(proxy_id="px", address=ADDRESS, status=status, sessions=sessions, draining=draining)


def session(status: Status, phone: str = "", wanted: Wanted = Wanted.RUNNING) -> Session:
    return Session(session_id="a", status=status, wanted=wanted, created_at=0, phone=phone)


def test_only_what_can_be_used_counts() -> None:
    stock = count_stock(
        proxies=[proxy("a", "b"), proxy(), proxy(status=ProxyStatus.BAD), proxy(draining=True), proxy(*"abcdef")],
        sessions=[session(Status.CONNECTED, "1"), session(Status.RECONNECTING, "2"),
                  session(Status.CONNECTED, "3", wanted=Wanted.DELETED)],
        profiles=["1", "2", "3", "4"], slots_per_proxy=4,
    )  # fmt: skip
    assert stock.counts() == {"freeSlots": 6, "healthyProxies": 3, "connectedSessions": 1, "profiles": 2}


def test_below_is_low_and_zero_asks_for_nothing() -> None:
    stock = count_stock(proxies=[proxy("a", "b")], sessions=[], profiles=[], slots_per_proxy=4)
    assert stock.low(OFF) == []
    assert stock.low({**OFF, "freeSlots": 2, "healthyProxies": 1}) == []
    assert stock.low({**OFF, "freeSlots": 3, "healthyProxies": 2, "connectedSessions": 1}) == [
        "freeSlots", "healthyProxies", "connectedSessions",
    ]  # fmt: skip


def test_an_installation_without_anything_is_not_low() -> None:
    stock = count_stock(proxies=[], sessions=[], profiles=[], slots_per_proxy=4)
    assert stock.low({**OFF, "freeSlots": 3}) == []


@pytest.mark.parametrize(
    ("line", "profile"),
    [
        ("972501234567", Profile(phone="972501234567")),
        ("+972 50-123-4567 , Front desk ", Profile(phone="972501234567", label="Front desk")),
        ("972501234567,,user:pass@proxy.example:1080", Profile(phone="972501234567", proxy=ADDRESS)),
        ("972501234567,socks5h://user:pass@proxy.example:1080", Profile(phone="972501234567", proxy=ADDRESS)),
        ("972501234567,משלוחים,proxy.example:1080:user:pa,ss",
         Profile(phone="972501234567", label="משלוחים", proxy=ProxyAddress("proxy.example", 1080, "user", "pa,ss"))),
        ("972501234567,Shop #3", Profile(phone="972501234567", label="Shop #3")),
    ],
)  # fmt: skip
def test_a_profile_is_a_phone_and_if_wanted_a_name_and_a_proxy(line: str, profile: Profile) -> None:
    assert parse_profile(line) == profile


@pytest.mark.parametrize(("line", "error"), [("shop", InvalidPhone), ("12", InvalidPhone), (",,", InvalidPhone),
                                             ("972501234567,x,http://u:hunter2@h:1", InvalidProxy)])  # fmt: skip
def test_what_is_wrong_is_told_without_repeating_the_line(line: str, error: type[Exception]) -> None:
    with pytest.raises(error) as told:
        parse_profile(line)
    assert "hunter2" not in str(told.value)


def test_lines_are_numbered_and_a_phone_counts_once() -> None:
    parsed = parse_profiles("\ufeff# our numbers\r\n972501234567,A\r\n\r\nnonsense\r\n+972501234567,B\r\n972501234568")
    assert [(line, p.phone, p.label) for line, p in parsed.good] == [(2, "972501234567", "A"), (6, "972501234568", "")]
    assert [error.line for error in parsed.errors] == [4]
    assert parsed.repeated == [5]
