"""The commands around pacing: which limits hold, where each comes from, and changing them."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.moments import HELP as TIME_HELP
from wa_orchestrator.cli.moments import local, read_moment
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import plain, print_fields, print_json, print_table

_NAMES = {
    "daily": "messages per day", "perMinute": "messages per minute", "minDelayMs": "shortest pause",
    "maxDelayMs": "longest pause", "hours": "hours", "burst": "pause after a burst", "timezone": "time zone",
}  # fmt: skip
_UNPACED = {"daily": None, "perMinute": None, "minDelayMs": 0, "maxDelayMs": 0, "hours": None, "burst": None}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Look at and change how fast phones send.",
    epilog="Example: wa-orchestrator limits set worker_1 --daily 50 --hours 09:00-18:00",
)
Session = Annotated[str | None, typer.Argument(metavar="SESSION", help="The session, for example worker_1.")]
All = Annotated[bool, typer.Option("--all", help="The override for all phones, instead of one session's.")]


@app.command(epilog="Example: wa-orchestrator limits show worker_1")
def show(ctx: typer.Context, session: Session = None, all_: All = False, as_json: JsonFlag = False) -> None:
    """Show the limits that hold now, and where each comes from."""
    _tell(ctx, api_for(options_of(ctx)).get(_path(session, all_)))


@app.command("set", epilog="Examples:\n\nwa-orchestrator limits set worker_1 --daily 50 --hours 09:00-18:00\n\n"
             "wa-orchestrator limits set worker_1 --preset cautious --until +2d\n\n"
             "wa-orchestrator limits set --all --hours none\n\n"
             "wa-orchestrator limits set worker_1 --unpaced --until +1h")  # fmt: skip
def set_(
    ctx: typer.Context,
    session: Session = None,
    all_: All = False,
    daily: Annotated[str | None, typer.Option(metavar="N|none", help="Messages per day.")] = None,
    per_minute: Annotated[str | None, typer.Option(metavar="N|none", help="Messages per minute.")] = None,
    min_delay: Annotated[int | None, typer.Option(metavar="MS", min=0, help="Shortest pause between two.")] = None,
    max_delay: Annotated[int | None, typer.Option(metavar="MS", min=0, help="Longest pause between two.")] = None,
    hours: Annotated[str | None, typer.Option(metavar="09:00-21:00|none", help="When it sends, local time.")] = None,
    burst: Annotated[
        str | None, typer.Option(metavar="COUNT:PAUSE_MS|none", help="After so many without a gap, a pause.")
    ] = None,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="For example Asia/Jerusalem.")] = None,
    preset: Annotated[str | None, typer.Option(help="standard or cautious.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME|none", help=f"When it ends: {TIME_HELP}.")] = None,
    unpaced: Annotated[bool, typer.Option("--unpaced", help="No limits at all: for tests, never for real.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Override limits. What is not named stays as it was set before; `none` means no such limit."""
    changes: dict[str, Any] = dict(_UNPACED) if unpaced else {}
    given = {
        "daily": _count("--daily", daily), "perMinute": _count("--per-minute", per_minute), "minDelayMs": min_delay,
        "maxDelayMs": max_delay, "hours": _word(hours), "burst": _burst(burst), "timezone": timezone,
        "preset": preset, "until": _until(until),
    }  # fmt: skip
    changes |= {name: None if value == "none" else value for name, value in given.items() if value is not None}
    if not changes:
        raise CliError(
            "USAGE", "Say what to set, for example --daily 50. See `wa-orchestrator limits set --help`.", exit_code=2
        )
    api, path = api_for(options_of(ctx)), _path(session, all_)
    before = _still_valid(api.get(path)["override"] or {})
    wanted = {name: value for name, value in {**before, **changes}.items() if name != "until" or value is not None}
    _tell(ctx, api.call("PUT", path, body=wanted).data)


@app.command(epilog="Example: wa-orchestrator limits clear worker_1")
def clear(ctx: typer.Context, session: Session = None, all_: All = False, as_json: JsonFlag = False) -> None:
    """Remove an override: the table by trust level holds again."""
    _tell(ctx, api_for(options_of(ctx)).call("DELETE", _path(session, all_)).data)


def _path(session: str | None, all_: bool) -> str:
    if bool(session) == all_:
        raise CliError("USAGE", "Name a session, or give --all.", exit_code=2)
    return f"/api/anti-ban/sessions/{segment(session)}/limits" if session else "/api/anti-ban/limits"


def _still_valid(override: dict[str, Any]) -> dict[str, Any]:
    """An override that has ended is not taken up again."""
    return {} if override.get("until") and override["until"] <= time.time() * 1000 else override


# reading what was typed -------------------------------------------------------------------------------------------
def _count(option: str, text: str | None) -> int | str | None:
    if text is None or _word(text) == "none":
        return _word(text)
    if not text.isascii() or not text.isdigit():
        raise CliError("USAGE", f"{option} is a whole number or none, not {plain(text)!r}.", exit_code=2)
    return int(text)


def _word(text: str | None) -> str | None:
    return "none" if text is not None and text.strip().lower() == "none" else text


def _burst(text: str | None) -> dict[str, int] | str | None:
    if text is None or _word(text) == "none":
        return _word(text)
    count, _, pause = text.partition(":")
    if not (count.isascii() and count.isdigit() and pause.isascii() and pause.isdigit()):
        raise CliError("USAGE", "--burst is COUNT:PAUSE_MS, for example 20:30000, or none.", exit_code=2)
    return {"count": int(count), "pauseMs": int(pause)}


def _until(text: str | None) -> str | None:
    return _word(text) if text is None or _word(text) == "none" else read_moment("--until", text)


# telling ----------------------------------------------------------------------------------------------------------
def _tell(ctx: typer.Context, answer: dict[str, Any]) -> None:
    if options_of(ctx).as_json:
        print_json(answer)
    elif "effective" in answer:
        _tell_session(answer)
    else:
        _tell_all(answer)


def _tell_session(answer: dict[str, Any]) -> None:
    trust, slowed, blocked = answer["trust"], answer.get("slowed"), answer.get("blocked")
    since = f", first connected {local(trust['since'])}" if trust.get("since") else ", not connected yet"
    print_fields([
        ("Session", answer["sessionId"]),
        ("Phone", answer.get("phone") or ""),
        ("Trust", trust["level"] + since),
        ("Preset", answer["preset"]),
        ("Override", f"ends {local(answer['overrideEndsAt'])}" if answer.get("overrideEndsAt") else ""),
        ("Slowed", f"pauses × {slowed['factor']:g} after {slowed['failures']} failures in a row" if slowed else ""),
        ("Blocked", f"until {local(blocked['until'])} ({blocked['reason']})" if blocked else ""),
    ])  # fmt: skip
    typer.echo("")
    rows = [(_NAMES.get(name, name), _value(name, value), answer["sources"].get(name, ""))
            for name, value in answer["effective"].items()]  # fmt: skip
    print_table(("LIMIT", "VALUE", "FROM"), rows)


def _tell_all(answer: dict[str, Any]) -> None:
    override = answer["override"]
    if not override:
        typer.echo("No override for all phones: the table by trust level holds.")
        return
    rows = [(_NAMES.get(name, name), _value(name, value)) for name, value in override.items()]
    print_table(("LIMIT", "VALUE FOR ALL"), rows)


def _value(name: str, value: Any) -> str:
    if value is None:
        return "none"
    if name == "burst":
        return f"{value['pauseMs']} ms after {value['count']} messages"
    if name == "until":
        from wa_orchestrator.clock import iso  # noqa: PLC0415 - only here

        return local(iso(value))
    return f"{value} ms" if name.endswith("Ms") else str(value)
