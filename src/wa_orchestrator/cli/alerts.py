"""The commands around alerts: what stands, what was told, and a test."""

from __future__ import annotations

from typing import Annotated

import typer

from wa_orchestrator.cli.api import api_for
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, plain, print_json, print_table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Look at alerts, and test where they go.",
    epilog="Example: wa-orchestrator alerts test",
)
_PROBLEMS = {
    "away": "Telegram cannot be reached; alerts wait.",
    "token": "Telegram does not know the bot: check TELEGRAM_BOT_TOKEN.",
    "chat": "The bot cannot write to the chat: check TELEGRAM_CHAT_ID.",
}


@app.command("list", epilog="Example: wa-orchestrator alerts list --limit 20")
def list_(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=500, help="So many of the last alerts.")] = 30,
    as_json: JsonFlag = False,
) -> None:
    """Show what is alarmed now and the last alerts."""
    options = options_of(ctx)
    found = api_for(options).get("/api/v1/alerts", limit=limit)
    if options.as_json:
        print_json(found)
        return
    for title, alerts in (("Now", found["standing"]), ("Told", found["recent"])):
        if alerts:
            typer.echo(f"{title}:")
            print_table(("when", "severity", "alert"), [(ago(a["at"]), a["severity"], a["title"]) for a in alerts])
    if not found["standing"]:
        typer.echo("Nothing is alarmed." if found["recent"] else "There were no alerts.")
    channel = found["channel"]
    if not channel["configured"]:
        typer.echo("Telegram is not set up: set TELEGRAM_BOT_TOKEN and TELEGRAM_CHAT_ID.")
    elif channel["problem"]:
        typer.echo(f"{plain(_PROBLEMS.get(channel['problem'], channel['problem']))} Waiting: {channel['waiting']}.")


@app.command("test", epilog="Example: wa-orchestrator alerts test")
def send_test(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """Send a test message to the Telegram chat."""
    options = options_of(ctx)
    answer = api_for(options).call("POST", "/api/v1/alerts/test", body={}).data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo("Sent. Look into the chat.")
