"""What is told and when: the desk, without store and Telegram."""

from __future__ import annotations

import time

import pytest

from support.alerts import OTHER_PROXY, PATIENCE, PROXY, Watch, entry
from wa_orchestrator.alerts.desk import Desk
from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.alerts.rules import meaning_of


def seen(notices: list[Notice]) -> list[tuple[str, str, int]]:
    return [(notice.state, notice.kind, notice.count) for notice in notices]


def test_a_new_session_that_connects_is_told_once() -> None:
    watch = Watch()
    watch.hear(0, "session.created", "worker_1", proxy=PROXY)
    watch.status(5, "worker_1", "qr_ready")
    watch.status(20, "worker_1", "reconnecting", "RESTART_REQUIRED")
    watch.status(22, "worker_1", "connected")
    assert seen(watch.tick(60)) == [("told", "connected", 1)]
    watch.status(70, "worker_1", "reconnecting", "RESTART_ORDERED")
    watch.status(75, "worker_1", "connected")
    assert watch.tick(10_000) == []
    assert watch.records == {}, "nothing is kept in mind of a session that is well"


def test_a_short_loss_of_connection_is_not_told() -> None:
    watch = Watch()
    watch.status(0, "worker_1", "reconnecting", "CONNECTION_LOST")
    watch.status(59, "worker_1", "connected")
    assert watch.tick(1000) == []


def test_a_long_loss_is_told_and_its_end_too() -> None:
    watch = Watch()
    watch.status(0, "worker_1", "reconnecting", "CONNECTION_LOST")
    assert watch.tick(64) == []
    (down,) = watch.tick(66)
    assert (down.state, down.kind, down.since, down.facts) == (
        "raised",
        "disconnected",
        0,
        {"reason": "CONNECTION_LOST"},
    )
    watch.status(300, "worker_1", "connected")
    assert seen(watch.tick(310)) == [("resolved", "disconnected", 1)]
    assert watch.tick(5000) == []


def test_nothing_changes_when_the_journal_is_read_late() -> None:
    watch = Watch()
    watch.status(0, "worker_1", "reconnecting", "CONNECTION_LOST")
    watch.status(1800, "worker_1", "connected")
    assert seen(watch.tick(7200)) == [("raised", "disconnected", 1), ("resolved", "disconnected", 1)]


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        ("logged_out", "LOGGED_OUT", "logged_out"),
        ("failed", "REPLACED", "replaced"),
        ("failed", "FORBIDDEN", "banned"),
        ("failed", "RESTRICTED", "banned"),
        ("failed", "CRASH_LOOP", "crash_loop"),
        ("failed", "WRONG_PHONE", "failed"),
        ("unhealthy", "NO_PING", "unhealthy"),
    ],
)
def test_what_needs_a_person_is_told_at_once(status: str, reason: str, kind: str) -> None:
    watch = Watch()
    watch.status(0, "worker_1", status, reason)
    assert seen(watch.tick(6)) == [("raised", kind, 1)]


def test_fifty_sessions_that_lose_one_proxy_make_one_alert_and_one_recovery() -> None:
    watch = Watch()
    sessions = [f"worker_{n}" for n in range(50)]
    for name in sessions:
        watch.status(1, name, "disconnected", "PROXY_ERROR")
    watch.hear(2, "proxy.bad", proxy=PROXY, kind="refused", error="x", sessions=50)
    for n, name in enumerate(sessions):
        at = 3 + n / 2
        if n < 46:
            watch.hear(at, "session.moved", name, **{"from": PROXY, "to": OTHER_PROXY, "reason": "PROXY_FAILED"})
            watch.status(at, name, "reconnecting", "PROXY_FAILED")
        else:
            watch.status(at, name, "disconnected", "NO_PROXY_AVAILABLE")
            watch.hear(at, "session.waiting", name, proxy=PROXY, reason="NO_PROXY_AVAILABLE")
    (notice,) = watch.tick(29)
    assert (notice.kind, notice.severity, notice.count) == ("proxy_bad", "critical", 51)
    assert notice.facts == {
        "proxy": PROXY, "moved": 46, "waiting": 4, "back": 0, "why": "refused", "sessions": 50
    }  # fmt: skip
    for n, name in enumerate(sessions[:46]):
        watch.status(30 + n, name, "connected")
    assert watch.tick(78) == [], "the last four are on their way"
    for name in sessions[46:]:
        watch.status(80, name, "connected")
    assert seen(watch.tick(86)) == [("resolved", "no_proxy", 50)]
    watch.hear(700, "proxy.recovered", proxy=PROXY)
    assert seen(watch.tick(710)) == [("resolved", "proxy_bad", 1)]
    assert watch.tick(5000) == []
    assert watch.records == {}


def test_a_failover_that_is_over_at_once_is_told_in_one() -> None:
    watch = Watch()
    watch.hear(0, "proxy.bad", proxy=PROXY, kind="timeout", sessions=2)
    watch.hear(1, "session.moved", "a", **{"from": PROXY, "to": OTHER_PROXY, "reason": "PROXY_FAILED"})
    watch.status(2, "a", "connected")
    (notice,) = watch.tick(20)
    assert (notice.facts["moved"], notice.facts["back"]) == (1, 1)
    assert watch.tick(30) == []


def test_moves_that_somebody_ordered_are_no_alert() -> None:
    watch = Watch()
    for reason in ("DRAIN", "STICKY_BINDING", ""):
        watch.hear(0, "session.moved", "a", **{"from": PROXY, "to": OTHER_PROXY, "reason": reason})
    assert watch.tick(100) == []


def test_a_stopped_session_that_only_changed_its_slot_is_not_waited_for() -> None:
    watch = Watch()
    moved = {"from": PROXY, "to": OTHER_PROXY, "reason": "PROXY_FAILED", "running": False}
    watch.hear(0, "session.moved", "a", **moved)
    assert seen(watch.tick(100)) == [("raised", "failover", 1)]
    assert "s:session:a" not in watch.records


def test_many_of_a_kind_are_told_in_one_message_with_their_common_reason() -> None:
    watch = Watch()
    for n in range(300):
        watch.status(n / 100, f"worker_{n}", "reconnecting", "UNAVAILABLE")
    (notice,) = watch.tick(70)
    assert (notice.count, notice.facts, len(notice.subjects)) == (300, {"reason": "UNAVAILABLE"}, 12)
    assert notice.subjects[:3] == ["session:worker_0", "session:worker_1", "session:worker_2"]


def test_repeats_are_counted_and_told_once_when_the_time_is_over() -> None:
    watch = Watch()
    for n in range(5):
        watch.status(100 * n, "a", "unhealthy", "NO_PING")
        watch.status(100 * n + 30, "a", "connected")
    told = watch.tick(590)
    assert seen(told) == [("raised", "unhealthy", 1), ("resolved", "unhealthy", 1)]
    (again,) = watch.tick(700)
    assert (again.state, again.kind, again.facts["times"], again.facts["again"]) == ("told", "unhealthy", 4, 1)


def test_a_folded_trouble_that_still_stands_is_told_again_and_its_end_too() -> None:
    watch = Watch()
    watch.status(0, "a", "unhealthy", "NO_PING")
    watch.status(20, "a", "connected")
    watch.status(100, "a", "unhealthy", "NO_PING")
    assert seen(watch.tick(500)) == [("raised", "unhealthy", 1), ("resolved", "unhealthy", 1)]
    (still,) = watch.tick(700)
    assert (still.state, still.facts["times"], still.since) == ("raised", 1, 100_000)
    watch.status(800, "a", "connected")
    assert seen(watch.tick(900)) == [("resolved", "unhealthy", 1)]


def test_the_worst_of_a_sessions_troubles_is_told() -> None:
    watch = Watch()
    watch.status(0, "a", "reconnecting", "CONNECTION_LOST")
    watch.status(10, "a", "logged_out", "LOGGED_OUT")
    watch.status(20, "a", "pending")
    assert seen(watch.tick(200)) == [("raised", "logged_out", 1)]
    watch.status(300, "a", "reconnecting", "RESTART_REQUIRED")
    watch.status(301, "a", "connected")
    assert seen(watch.tick(400)) == [("resolved", "logged_out", 1)], "and not also as newly connected"


def test_what_the_operator_ends_is_not_told_but_noted() -> None:
    watch = Watch()
    watch.status(0, "a", "failed", "CRASH_LOOP")
    assert len(watch.tick(10)) == 1
    watch.status(20, "a", "stopped", "STOP_ORDERED")
    (over,) = watch.tick(100)
    assert (over.state, over.quiet) == ("resolved", True)
    watch.status(200, "b", "reconnecting", "CONNECTION_LOST")
    watch.hear(210, "session.deleted", "b", proxy=PROXY)
    assert watch.tick(1000) == []


def test_a_low_stock_is_told_when_it_lasts_and_over_when_that_lasts() -> None:
    watch = Watch()
    watch.hear(0, "inventory.low", stock="freeSlots", count=1, threshold=2)
    watch.hear(30, "inventory.enough", stock="freeSlots", count=2, threshold=2)
    assert watch.tick(50) == [], "a dip"
    watch.hear(100, "inventory.low", stock="freeSlots", count=0, threshold=2)
    (low,) = watch.tick(170)
    assert (low.kind, low.facts) == ("low_stock", {"count": 0, "threshold": 2})
    watch.hear(200, "inventory.enough", stock="freeSlots", count=2, threshold=2)
    watch.hear(250, "inventory.low", stock="freeSlots", count=1, threshold=2)
    watch.hear(260, "inventory.enough", stock="freeSlots", count=5, threshold=2)
    assert watch.tick(370) == []
    (over,) = watch.tick(390)
    assert (over.state, over.facts["count"]) == ("resolved", 5)


def test_lanes_backups_and_webhooks_are_told() -> None:
    watch = Watch()
    watch.hear(0, "lane.blocked", "a", phone="972500000001", reason="RESTRICTED", until=99)
    watch.hear(0, "lane.flood", "a", phone="972500000001", messages=300)
    watch.hear(0, "backup.created", backup="backup_2026-11-15", sessions=20)
    watch.hear(0, "backup.failed", code="STORE_UNAVAILABLE")
    watch.hear(0, "restore.failed", backup="backup_2026-11-15")
    watch.hear(0, "lane.slowed", phone="972500000001", failures=3)
    watch.hear(0, "nobody.knows", phone="972500000001")
    kinds = {notice.kind for notice in watch.tick(10)}
    watch.hear(11, "webhook.failing", webhookId="wh_0123abcd", error="x")
    watch.hear(12, "webhook.dead", webhookId="wh_0123abcd", events=3)
    watch.hear(13, "webhook.recovered", webhookId="wh_0123abcd")
    assert seen(watch.tick(20)) == [("raised", "webhook_failing", 1), ("told", "webhook_dead", 1)]
    assert kinds == {"lane_blocked", "lane_flood", "lane_slowed", "backup_done", "backup_failed", "restore_failed"}
    watch.hear(20, "lane.recovered", phone="972500000001")
    assert seen(watch.tick(30)) == [("resolved", "lane_slowed", 1)]


def test_a_new_exit_address_is_told_and_nothing_but_addresses_passes() -> None:
    watch = Watch()
    watch.hear(0, "proxy.exit_ip_changed", proxy="px_0123456789ab", was="203.0.113.7", now="user:pass@proxy.example")
    (notice,) = watch.tick(30)
    assert (notice.kind, notice.subjects, notice.facts) == (
        "exit_ip_changed", ["proxy:px_0123456789ab"], {"was": "203.0.113.7"}
    )  # fmt: skip


def test_five_thousand_sessions_are_handled_quickly() -> None:
    desk = Desk({}, PATIENCE)
    began = time.process_time()
    for status in ("reconnecting", "connected"):
        for n in range(5000):
            signal = meaning_of(entry("session.status", f"worker_{n}", status=status, reason="UNAVAILABLE"))
            assert signal
            desk.hear(signal, n // 5 + (0 if status == "reconnecting" else 100_000))
    desk.tick(1_000_000)
    assert seen(desk.take()[2]) == [("raised", "disconnected", 5000), ("resolved", "disconnected", 5000)]
    assert time.process_time() - began < 3, "about half a second; looking at all of them for each took six"
