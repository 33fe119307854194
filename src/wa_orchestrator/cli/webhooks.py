"""The commands around webhooks: create, look, test, pause, delete, dead letters."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, plain, print_json, print_table

_TEST_TIMEOUT_S = 90.0

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Post events to your programs; dead letters.",
    epilog="Example: wa-orchestrator webhooks create https://app.example/events --types 'message.*,MESSAGE_RECEIVED'",
)
WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook, see `webhooks list`.")]


@app.command(epilog="Example: wa-orchestrator webhooks create https://app.example/events --types MESSAGE_RECEIVED")
def create(
    ctx: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="https://… or http://…")],
    types: Annotated[str, typer.Option(help="Event types with commas between; message.* for a group. Else all.")] = "",
    sessions: Annotated[str, typer.Option(help="Session ids with commas between. Else all.")] = "",
    label: Annotated[str, typer.Option(help="A name for people.")] = "",
    after: Annotated[int | None, typer.Option(help="Begin after this event number. Else with what comes.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a webhook; its secret is printed this once."""
    options = options_of(ctx)
    body: dict[str, Any] = {"url": url, "types": _words(types), "sessions": _words(sessions), "label": label}
    if after is not None:
        body["after"] = after
    made = api_for(options).call("POST", "/api/v1/webhooks", body=body).data
    if options.as_json:
        print_json(made)
        return
    typer.echo(f"{made['id']}  {plain(made['url'])}")
    typer.echo(f"secret, shown this once: {made['secret']}")


@app.command("list")
def list_(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List webhooks and how they do."""
    options = options_of(ctx)
    answer = api_for(options).get("/api/v1/webhooks")
    if options.as_json:
        print_json(answer)
        return
    if not answer["webhooks"]:
        typer.echo("No webhooks yet: wa-orchestrator webhooks create https://app.example/events")
        return
    columns = ("ID", "ADDRESS", "STATE", "DELIVERED", "LAST", "OPEN", "DEAD", "LAST ERROR")
    print_table(columns, [_row(one) for one in answer["webhooks"]])


@app.command(epilog="Exit status 1 when the receiver did not take it.")
def test(ctx: typer.Context, webhook_id: WebhookId, as_json: JsonFlag = False) -> None:  # noqa: PT028 - a command
    """Post a test event now and say what the receiver did."""
    options = options_of(ctx)
    path = f"/api/v1/webhooks/{segment(webhook_id)}/test"
    answer = api_for(options).call("POST", path, timeout_s=_TEST_TIMEOUT_S).data
    if options.as_json:
        print_json(answer)
    else:
        said = "taken" if answer["delivered"] else f"not taken: {answer['error']}"
        typer.echo(f"{said} ({answer['tookMs']} ms)")
    if not answer["delivered"]:
        raise typer.Exit(1)


@app.command()
def pause(ctx: typer.Context, webhook_id: WebhookId, as_json: JsonFlag = False) -> None:
    """Stop delivering for now; its place in the journal is kept."""
    _switch(ctx, webhook_id, enabled=False)


@app.command()
def resume(ctx: typer.Context, webhook_id: WebhookId, as_json: JsonFlag = False) -> None:
    """Go on where it stopped."""
    _switch(ctx, webhook_id, enabled=True)


@app.command()
def delete(ctx: typer.Context, webhook_id: WebhookId, as_json: JsonFlag = False) -> None:
    """Delete a webhook with its dead letters and whatever waits for it."""
    options = options_of(ctx)
    answer = api_for(options).call("DELETE", f"/api/v1/webhooks/{segment(webhook_id)}").data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['id']} is deleted.")


@app.command()
def dead(
    ctx: typer.Context,
    webhook_id: WebhookId,
    limit: Annotated[int, typer.Option(min=1, max=500)] = 100,
    as_json: JsonFlag = False,
) -> None:
    """List events that were given up, newest first."""
    options = options_of(ctx)
    answer = api_for(options).get(f"/api/v1/webhooks/{segment(webhook_id)}/dead", limit=limit)
    if options.as_json:
        print_json(answer)
        return
    if not answer["dead"]:
        typer.echo("No dead letters.")
        return
    rows = [(str(one["number"]), one["type"], one["sessionId"] or "", ago(one["deadAt"]), plain(one["reason"]))
            for one in answer["dead"]]  # fmt: skip
    print_table(("NUMBER", "TYPE", "SESSION", "GIVEN UP", "WHY"), rows)


@app.command(epilog="Example: wa-orchestrator webhooks redrive wh_0123456789abcdef 1042 1043")
def redrive(
    ctx: typer.Context,
    webhook_id: WebhookId,
    numbers: Annotated[list[int] | None, typer.Argument(metavar="NUMBER", help="Event numbers.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="All dead letters of this webhook.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Send dead letters again."""
    if bool(numbers) == all_:
        raise CliError("USAGE", "Name event numbers, or give --all.", exit_code=2)
    options = options_of(ctx)
    body = {"numbers": numbers} if numbers else {}
    answer = api_for(options).call("POST", f"/api/v1/webhooks/{segment(webhook_id)}/redrive", body=body).data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['redriven']} on their way, {answer['left']} left.")


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]


def _switch(ctx: typer.Context, webhook_id: str, *, enabled: bool) -> None:
    options = options_of(ctx)
    path = f"/api/v1/webhooks/{segment(webhook_id)}"
    answer = api_for(options).call("PATCH", path, body={"enabled": enabled}).data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['id']} is {'resumed' if enabled else 'paused'}.")


def _row(one: Any) -> tuple[str, ...]:
    state = one["state"]
    return (
        one["id"], plain(one["label"] or one["url"]), state["status"], str(state["delivered"]),
        ago(state["lastDeliveredAt"]), str(state["behind"] + state["waiting"]), str(state["dead"]),
        plain(state["lastError"] or "") if state["status"] == "failing" else "",
    )  # fmt: skip
