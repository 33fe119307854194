"""How much a phone may send: presets by trust, overrides, and where each effective value comes from. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from zoneinfo import ZoneInfo

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.model.trust import Trust

_HOURS = re.compile(r"^([01]?\d|2[0-3]):([0-5]\d)-([01]?\d|2[0-4]):([0-5]\d)$", re.ASCII)


@dataclass(frozen=True)
class Hours:
    """Local minutes of the day, from (included) to (excluded); `to` may be the next day."""

    opens: int
    closes: int

    def text(self) -> str:
        return f"{self.opens // 60:02}:{self.opens % 60:02}-{self.closes // 60:02}:{self.closes % 60:02}"


@dataclass(frozen=True)
class Burst:
    """After so many messages without a natural gap, a pause."""

    count: int
    pause_ms: int


@dataclass(frozen=True, kw_only=True)
class Limits:
    """None: no such limit."""

    daily: int | None
    per_minute: int | None
    min_delay_ms: int
    max_delay_ms: int
    hours: Hours | None
    burst: Burst | None
    timezone: str


FIELDS = ("daily", "per_minute", "min_delay_ms", "max_delay_ms", "hours", "burst", "timezone")
PRESETS = ("standard", "cautious")
_Level = Literal["cold", "warm", "hot"]


def preset_limits(preset: str, trust: Trust, *, timezone: str, burst: Burst) -> Limits:
    """The table of the specification; `cautious` is its older, stricter form with ±30 % around the delays."""
    standard: dict[str, tuple[int, int, int, int, int, int]] = {
        "cold": (20, 5, 5000, 8000, 9, 21),
        "warm": (100, 15, 3000, 5000, 8, 22),
        "hot": (500, 30, 2000, 4000, 7, 23),
    }
    daily, per_minute, low, high, opens, closes = standard[trust.level]
    if preset == "cautious":
        daily = {"cold": 10, "warm": 50, "hot": 200}[trust.level]
        low, high = int(low * 0.7), int(high * 1.3)
    return Limits(
        daily=daily, per_minute=per_minute, min_delay_ms=low, max_delay_ms=high,
        hours=Hours(opens * 60, closes * 60), burst=burst, timezone=timezone,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Override:
    """What somebody set by hand. A field that is not in `values` is not overridden; None there means no limit."""

    values: dict[str, Any] = field(default_factory=dict)
    preset: str | None = None
    until: int | None = None  # ms; afterwards it no longer counts

    def active(self, now_ms: int) -> bool:
        return self.until is None or now_ms < self.until


def strictest(overrides: list[Override]) -> Override:
    """Several sessions of one phone share one budget: of what was set for each, the strictest counts."""
    chosen = overrides[0]
    for other in overrides[1:]:
        values = dict(chosen.values)
        for name, value in other.values.items():
            values[name] = _stricter(name, values[name], value) if name in values else value
        preset = "cautious" if "cautious" in (chosen.preset, other.preset) else chosen.preset or other.preset
        ends = [o.until for o in (chosen, other) if o.until is not None]
        chosen = Override(values=values, preset=preset, until=min(ends) if ends else None)
    return chosen


def _stricter(name: str, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if name in {"daily", "per_minute"}:
        return min(one, other)
    if name in {"min_delay_ms", "max_delay_ms"}:
        return max(one, other)
    if name == "burst":
        return Burst(min(one.count, other.count), max(one.pause_ms, other.pause_ms))
    if name == "hours":
        return min(one, other, key=lambda hours: (hours.closes - hours.opens) % (24 * 60) or 24 * 60)
    return one


@dataclass(frozen=True)
class Effective:
    limits: Limits
    sources: dict[str, str]  # field → trust:cold, preset:cautious, global, session
    preset: str
    changes_at: int | None  # when an override ends


def effective_limits(
    *,
    trust: Trust,
    default_preset: str,
    timezone: str,
    burst: Burst,
    overrides: list[tuple[str, Override]],
    now_ms: int,
) -> Effective:
    """Overrides in order: (where from, what); a later one wins. Those that ended are passed over."""
    live = [(where, override) for where, override in overrides if override.active(now_ms)]
    preset = next((o.preset for _, o in reversed(live) if o.preset), default_preset)
    origin = f"trust:{trust.level}" if preset == "standard" else f"preset:{preset}"
    limits = preset_limits(preset, trust, timezone=timezone, burst=burst)
    sources = dict.fromkeys(FIELDS, origin) | {"timezone": "settings", "burst": "settings"}
    for where, override in live:
        limits = replace(limits, **override.values)
        sources.update(dict.fromkeys(override.values, where))
    # one end of the delay set by hand must not cross the other
    if limits.max_delay_ms < limits.min_delay_ms:
        if sources["max_delay_ms"] == origin:
            limits = replace(limits, max_delay_ms=limits.min_delay_ms)
        else:
            limits = replace(limits, min_delay_ms=limits.max_delay_ms)
    ends = [o.until for _, o in live if o.until is not None]
    return Effective(limits=limits, sources=sources, preset=preset, changes_at=min(ends) if ends else None)


# reading what somebody set ---------------------------------------------------------------------------------------
def _wrong(name: str, sentence: str) -> InvalidBody:
    return InvalidBody(f"{name}: {sentence}", details={"field": name})


def _whole(name: str, value: object, *, highest: int, lowest: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= highest:
        raise _wrong(name, f"write a whole number from {lowest} to {highest}.")
    return value


def read_hours(value: object) -> Hours | None:
    """`"09:00-21:00"` or `{from, to}`; null: at any hour."""
    if value is None:
        return None
    text = f"{value.get('from')}-{value.get('to')}" if isinstance(value, dict) else value
    found = _HOURS.fullmatch(text) if isinstance(text, str) else None
    if not found or (isinstance(value, dict) and set(value) != {"from", "to"}):
        raise _wrong("hours", 'write "09:00-21:00", or null for any hour.')
    opens, closes = int(found[1]) * 60 + int(found[2]), int(found[3]) * 60 + int(found[4])
    if closes > 24 * 60 or opens == closes:
        raise _wrong("hours", "the end must be another time than the beginning, 24:00 at the latest.")
    return Hours(opens, closes)


def read_burst(value: object) -> Burst | None:
    if value is None:
        return None
    if not isinstance(value, dict) or set(value) - {"count", "pauseMs"}:
        raise _wrong("burst", "write {count, pauseMs}, or null.")
    return Burst(
        _whole("burst.count", value.get("count"), lowest=1, highest=10_000),
        _whole("burst.pauseMs", value.get("pauseMs"), highest=86_400_000),
    )


def read_timezone(value: object) -> str:
    try:
        if isinstance(value, str) and value:
            ZoneInfo(value)
            return value
    except (KeyError, ValueError, OSError):
        pass
    raise _wrong("timezone", "write a zone such as Asia/Jerusalem.")


def read_override(body: dict[str, Any], *, now_ms: int) -> Override:
    """A limits body as clients send it; raises InvalidBody with the field named."""
    unknown = set(body) - {"daily", "perMinute", "minDelayMs", "maxDelayMs", "hours", "burst", "timezone", "until",
                           "preset"}  # fmt: skip
    if unknown:
        raise _wrong(min(unknown), "there is no such limit.")
    values: dict[str, Any] = {}
    for name, key, highest in (("daily", "daily", 1_000_000), ("perMinute", "per_minute", 100_000)):
        if name in body:
            values[key] = None if body[name] is None else _whole(name, body[name], highest=highest)
    for name, key in (("minDelayMs", "min_delay_ms"), ("maxDelayMs", "max_delay_ms")):
        if name in body:
            values[key] = 0 if body[name] is None else _whole(name, body[name], highest=86_400_000)
    if values.get("min_delay_ms", 0) > values.get("max_delay_ms", 86_400_000):
        raise _wrong("maxDelayMs", "it must not be smaller than minDelayMs.")
    if "hours" in body:
        values["hours"] = read_hours(body["hours"])
    if "burst" in body:
        values["burst"] = read_burst(body["burst"])
    if body.get("timezone") is not None:
        values["timezone"] = read_timezone(body["timezone"])
    preset = body.get("preset")
    if preset is not None and preset not in PRESETS:
        raise _wrong("preset", f"one of {', '.join(PRESETS)}.")
    until = body.get("until")
    if until is not None:
        until = read_instant("until", until)
        if until <= now_ms:
            raise _wrong("until", "this time is over.")
    return Override(values=values, preset=preset, until=until)


def read_instant(name: str, value: object) -> int:
    """A moment as ISO 8601 with a zone, or ms since the epoch."""
    from datetime import UTC, datetime  # noqa: PLC0415 - only here

    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 52:
        return value
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            # year 1 in the far east was year 0 in UTC, which there is none
            if moment.tzinfo is not None and 1 < moment.year < 9999:
                return int(moment.astimezone(UTC).timestamp() * 1000)
    raise _wrong(name, "write a time such as 2030-01-31T09:00:00+02:00.")


def limits_view(limits: Limits) -> dict[str, Any]:
    """As clients see them."""
    return {
        "daily": limits.daily,
        "perMinute": limits.per_minute,
        "minDelayMs": limits.min_delay_ms,
        "maxDelayMs": limits.max_delay_ms,
        "hours": limits.hours.text() if limits.hours else None,
        "burst": {"count": limits.burst.count, "pauseMs": limits.burst.pause_ms} if limits.burst else None,
        "timezone": limits.timezone,
    }


def override_view(override: Override) -> dict[str, Any]:
    """As it is kept and shown: only what was set."""
    names = {"per_minute": "perMinute", "min_delay_ms": "minDelayMs", "max_delay_ms": "maxDelayMs"}
    view: dict[str, Any] = {}
    for key, value in override.values.items():
        shown = value
        if isinstance(value, Hours):
            shown = value.text()
        elif isinstance(value, Burst):
            shown = {"count": value.count, "pauseMs": value.pause_ms}
        view[names.get(key, key)] = shown
    if override.preset:
        view["preset"] = override.preset
    if override.until:
        view["until"] = override.until
    return view
