"""The command that prints events, from a number on and as they happen."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import api_for
from wa_orchestrator.cli.moments import local
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import plain, print_json_line

_WAIT_MS = 25_000


def events(
    ctx: typer.Context,
    after: Annotated[int | None, typer.Option(help="Begin after this number. Else with the newest.")] = None,
    types: Annotated[str, typer.Option(help="With commas between; message.* for a group.")] = "",
    session: Annotated[str, typer.Option(help="One session only.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they happen, until stopped.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most, without --follow.")] = 100,
    as_json: JsonFlag = False,
) -> None:
    """Print events: one line each, with --json one JSON object per line."""
    options = options_of(ctx)
    api = api_for(options)
    if after is None:
        after = max(0, api.get("/api/v1/events", limit=1)["newest"] - (0 if follow else limit))
    while True:
        query = {"after": after, "types": types or None, "session": session or None, "limit": limit,
                 "waitMs": _WAIT_MS if follow else None}  # fmt: skip
        page = api.call("GET", "/api/v1/events", query=query, timeout_s=2 * _WAIT_MS / 1000).data
        if gap := page.get("gap"):
            typer.echo(f"events {gap['from']} to {gap['to'] or '…'} are no longer kept", err=True)
        for event in page["events"]:
            if options.as_json:
                print_json_line(event)
            else:
                typer.echo(_line(event))
        after = page["last"]
        if not follow:
            return


def _line(event: dict[str, Any]) -> str:
    data = " ".join(f"{name}={plain(str(value))}" for name, value in event["data"].items() if value not in ("", None))
    who = event["sessionId"] or "-"
    return f"{event['number']:>8}  {local(event['timestamp'])}  {who:<14} {event['type']:<20} {data}".rstrip()
