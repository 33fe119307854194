"""The kinds of alerts: how bad each is, how it looks, and which of two troubles of a session counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


@dataclass(frozen=True, kw_only=True)
class Kind:
    name: str
    severity: Severity
    icon: str
    rank: int = 0  # of two troubles of one session the higher is told
    patient: bool = False  # told only when it lasts for ALERT_GRACE_MS: most short ones heal by themselves
    steady: bool = False  # its end counts only when it lasts, too


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(name="connected", severity="info", icon="✅"),
        Kind(name="failover", severity="warning", icon="🔄", rank=1),
        Kind(name="disconnected", severity="warning", icon="⚠️", rank=2, patient=True),
        Kind(name="unhealthy", severity="warning", icon="🩺", rank=3),
        Kind(name="no_proxy", severity="critical", icon="🚫", rank=4),
        Kind(name="logged_out", severity="critical", icon="⚠️", rank=5),
        Kind(name="replaced", severity="critical", icon="⚠️", rank=5),
        Kind(name="banned", severity="critical", icon="⛔", rank=5),
        Kind(name="crash_loop", severity="critical", icon="💥", rank=5),
        Kind(name="failed", severity="critical", icon="❌", rank=5),
        Kind(name="proxy_bad", severity="warning", icon="🔥"),
        Kind(name="exit_ip_changed", severity="warning", icon="📍"),
        Kind(name="low_stock", severity="warning", icon="📉", patient=True, steady=True),
        Kind(name="lane_blocked", severity="critical", icon="⛔"),
        Kind(name="lane_slowed", severity="warning", icon="🐢"),
        Kind(name="lane_flood", severity="warning", icon="🌊"),
        Kind(name="webhook_failing", severity="warning", icon="📮"),
        Kind(name="webhook_dead", severity="warning", icon="📮"),
        Kind(name="webhook_disabled", severity="critical", icon="📮"),
        Kind(name="backup_done", severity="info", icon="💾"),
        Kind(name="backup_failed", severity="critical", icon="❌"),
        Kind(name="restore_done", severity="info", icon="💾"),
        Kind(name="restore_failed", severity="critical", icon="❌"),
    )
}


def at_least(severity: Severity, least: str) -> bool:
    return SEVERITIES.index(severity) >= [*SEVERITIES].index(least)  # type: ignore[arg-type]
