"""Minute counts as the lines of a chart. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RANGES = {"hour": (60, 1), "day": (1440, 15), "two-days": (2880, 30)}  # minutes shown, minutes per point


def series(minutes: Sequence[tuple[int, dict[str, int]]], *, per_point: int) -> dict[str, list[Any]]:
    """Messages are added up per point; of sessions the last look counts, and no look leaves a gap."""
    lines: dict[str, list[Any]] = {
        "at": [], "accepted": [], "sent": [], "failed": [], "connected": [], "total": []
    }  # fmt: skip
    for start in range(0, len(minutes), per_point):
        part = minutes[start : start + per_point]
        lines["at"].append(part[0][0] * 60)
        for name in ("accepted", "sent", "failed"):
            lines[name].append(sum(counts.get(name, 0) for _, counts in part))
        for name, field in (("connected", "sessionsConnected"), ("total", "sessionsTotal")):
            looks = [counts[field] for _, counts in part if field in counts]
            lines[name].append(looks[-1] if looks else None)
    return lines
