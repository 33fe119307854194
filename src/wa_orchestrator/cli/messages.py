"""The commands around messages: list, follow, cancel, drive again."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import Api, api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.moments import local
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, plain, print_fields, print_json, print_json_line, print_table

_PAGE = 500
_LOOK_EVERY_S = 0.3
_STEPS = ("sent", "delivered", "read", "played")  # in this order; each means the ones before
_ENDED_BADLY = {"failed", "expired", "cancelled"}
_STATUSES = "accepted, queued, outbox, claimed, sent, delivered, read, played, failed, expired, cancelled"

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="List, follow, cancel and redrive messages.",
    epilog="Example: wa-orchestrator messages list --status failed",
)
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The message, for example msg_0123456789abcdef01.")]
MessageIds = Annotated[list[str], typer.Argument(metavar="ID", help="One message or several.")]
Limit = Annotated[int, typer.Option(help="At most so many.", min=1)]


@app.command("list", epilog="Example: wa-orchestrator messages list --session worker_1 --status queued --limit 20")
def list_(
    ctx: typer.Context,
    status: Annotated[str | None, typer.Option(help=f"Only those in this state: {_STATUSES}.")] = None,
    session: Annotated[str | None, typer.Option(help="Only those of this session.")] = None,
    to: Annotated[str | None, typer.Option(help="Only those to this number; its beginning is enough.")] = None,
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List messages, newest first."""
    options = options_of(ctx)
    if status and status not in _STATUSES.split(", "):
        raise CliError("USAGE", f"--status is one of {_STATUSES}.", exit_code=2)
    page = _collect(api_for(options), limit=limit, status=status, sessionId=session, to=to)
    if options.as_json:
        print_json(page)
        return
    filtered = status or session or to
    _print_list(page["messages"], none="No message fits." if filtered else "No messages yet: wa-orchestrator send …")
    if page["nextCursor"]:
        typer.echo("There may be more; --limit shows more.")


@app.command(epilog="Example: wa-orchestrator messages show msg_0123456789abcdef01")
def show(ctx: typer.Context, message_id: MessageId, as_json: JsonFlag = False) -> None:
    """Tell a message's story: every step with its time, and what it waits for."""
    options = options_of(ctx)
    message = api_for(options).get(f"/api/v1/messages/{segment(message_id)}")
    if options.as_json:
        print_json(message)
        return
    print_fields(_fields(message))
    typer.echo("")
    for step in message["story"]:
        typer.echo(step_line(step))
    if message["waitingFor"]:
        typer.echo(f"→ {waiting_line(message)}")


@app.command(epilog="Example: wa-orchestrator messages cancel msg_0123456789abcdef01")
def cancel(ctx: typer.Context, message_ids: MessageIds, as_json: JsonFlag = False) -> None:
    """Cancel messages that no worker has yet."""
    _for_each(ctx, message_ids, lambda api, one: api.post(f"/api/v1/messages/{segment(one)}/cancel"))


@app.command(epilog="Examples:\n\nwa-orchestrator messages redrive msg_0123456789abcdef01\n\n"
             "wa-orchestrator messages redrive --all-dead")  # fmt: skip
def redrive(
    ctx: typer.Context,
    message_ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="One message or several.")] = None,
    all_dead: Annotated[bool, typer.Option("--all-dead", help="Every failed message.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Send failed messages again; one that left after all is not doubled."""
    if bool(message_ids) == all_dead:
        raise CliError("USAGE", "Name the messages to drive again, or give --all-dead.", exit_code=2)
    if message_ids:
        _for_each(ctx, message_ids, _redriven)
    else:
        _redrive_all(ctx)


@app.command()
def dead(ctx: typer.Context, limit: Limit = 50, as_json: JsonFlag = False) -> None:
    """List failed messages, newest first; `messages redrive` sends them again."""
    options = options_of(ctx)
    found = api_for(options).get("/api/v1/messages/dead", limit=min(limit, _PAGE))
    if options.as_json:
        print_json(found)
    else:
        _print_list(found["messages"], none="No message has failed.")


# following one ----------------------------------------------------------------------------------------------------
def follow(api: Api, message_id: str, *, goal: str, until: float, as_json: bool) -> dict[str, Any]:
    """Tells each step as it happens, until `goal` (sent, delivered, read) or a bad end; raises when neither comes."""
    told, waits = 0, None
    while True:
        message: dict[str, Any] = api.get(f"/api/v1/messages/{segment(message_id)}")
        for step in message["story"][told:]:
            _tell_step(message_id, step, as_json=as_json)
        told, status = max(told, len(message["story"])), message["status"]
        if status in _ENDED_BADLY or (status in _STEPS and _STEPS.index(status) >= _STEPS.index(goal)):
            return message
        waiting = message["waitingFor"]
        if waiting and waiting["code"] != waits and not as_json:
            typer.echo(f"→ {waiting_line(message)}")
        waits = waiting and waiting["code"]
        if time.monotonic() >= until:
            raise CliError("STILL_WAITING", f"{message_id} is {status} and goes on without us. "
                           f"See `wa-orchestrator messages show {message_id}`.")  # fmt: skip
        time.sleep(_LOOK_EVERY_S)


def ended_badly(message: dict[str, Any]) -> bool:
    return message["status"] in _ENDED_BADLY


def _tell_step(message_id: str, step: Any, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"messageId": message_id, **step})
    else:
        typer.echo(step_line(step))


def step_line(step: Any) -> str:
    why = f"  ({plain(step['reason'])})" if step.get("reason") else ""
    return f"{local(step['at'], with_ms=True)}  {plain(step['what'])}{why}"


def waiting_line(message: Any) -> str:
    """What a message waits for, until when, and where to look if its session is the reason."""
    waiting = message["waitingFor"]
    until = f" Until {local(waiting['until'])}." if waiting.get("until") else ""
    look = ""
    if "SESSION" in waiting["code"]:
        look = f"show {plain(message['sessionId'])}" if message.get("sessionId") else "list"
        look = f" See `wa-orchestrator sessions {look}`."
    return f"waiting for {waiting['code']}: {plain(waiting['message'])}{until}{look}"


# ------------------------------------------------------------------------------------------------------------------
def _collect(api: Api, *, limit: int, **filters: str | None) -> dict[str, Any]:
    """Follows the pages until `limit` messages are there."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = api.get("/api/v1/messages", limit=min(_PAGE, limit - len(found)), cursor=cursor, **filters)
        found += page["messages"]
        cursor = page.get("nextCursor")
        if not cursor or not page["messages"] or len(found) >= limit:
            return {"messages": found, "nextCursor": cursor}


def _redriven(api: Api, message_id: str) -> Any:
    return api.post(f"/api/v1/messages/{segment(message_id)}/redrive")


def _redrive_all(ctx: typer.Context) -> None:
    """Page by page; ends when no page brings a message that was not tried yet."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    tried: set[str] = set()
    answers: list[Any] = []
    while True:
        page = [m["messageId"] for m in api.get("/api/v1/messages/dead", limit=_PAGE)["messages"]]
        fresh = [one for one in page if one not in tried]
        if not fresh:
            break
        tried.update(fresh)
        answers += [_attempt(api, one, _redriven) for one in fresh]
    failed = [answer for answer in answers if "error" in answer]
    if options.as_json:
        print_json(answers)
    else:
        for answer in failed:
            _tell(answer)
        typer.echo(f"{len(answers) - len(failed)} driven again." if answers else "No message has failed.")
    if failed:
        raise typer.Exit(1)


def _attempt(api: Api, message_id: str, act: Callable[[Api, str], Any]) -> Any:
    try:
        return act(api, message_id)
    except CliError as error:
        return {"messageId": message_id, "error": error.as_object()}


def _for_each(ctx: typer.Context, message_ids: list[str], act: Callable[[Api, str], Any]) -> None:
    """Does it for every message, also after a failure. One id: its answer; several: a list, failures included."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    if len(message_ids) == 1:
        answer = act(api, message_ids[0])
        if options.as_json:
            print_json(answer)
        else:
            _tell(answer)
        return
    answers = []
    for message_id in message_ids:
        answers.append(_attempt(api, message_id, act))
        if not options.as_json:
            _tell(answers[-1])
    if options.as_json:
        print_json(answers)
    if any("error" in answer for answer in answers):
        raise typer.Exit(1)


def _tell(answer: Any) -> None:
    if "error" in answer:
        typer.echo(f"{plain(answer['messageId'])}: {answer['error']['message']}", err=True)
    else:
        typer.echo(f"{answer['messageId']}: {answer['status']}")


def _print_list(messages: list[Any], *, none: str) -> None:
    if not messages:
        typer.echo(none)
        return
    print_table(("ID", "STATUS", "TO", "SESSION", "KIND", "ACCEPTED", "SENT", "REFERENCE", "REASON"),
                [_row(message) for message in messages])  # fmt: skip


def _row(message: Any) -> tuple[str, ...]:
    return (
        message["messageId"],
        message["status"],
        _number(message["to"]),
        message.get("sessionId") or message.get("phone") or "",
        message.get("kind") or "",
        ago(message.get("acceptedAt")),
        ago(message.get("sentAt")),
        message.get("reference") or "",
        message.get("reason") or "",
    )


def _number(jid: str) -> str:
    return jid.removesuffix("@s.whatsapp.net")


def _fields(message: Any) -> list[tuple[str, str]]:
    content = message.get("content") or {}
    media = content.get("media") or {}
    return [
        ("Message", message["messageId"]),
        ("Status", message["status"]),
        ("Reason", message.get("reason") or ""),
        ("To", _number(message["to"])),
        ("Session", message.get("sessionId") or ""),
        ("Phone", message.get("phone") or ""),
        ("Kind", message.get("kind") or ""),
        ("Text", content.get("text") or content.get("caption") or ""),
        ("File", media.get("url") or media.get("mediaId") or ("in the message" if media else "")),
        ("Priority", str(message["priority"]) if message.get("priority") not in {None, 2} else ""),
        ("Attempts", str(message.get("attempts") or "")),
        ("Reference", message.get("reference") or ""),
        ("Planned for", local(message.get("scheduleAt"))),
        ("Expires", local(message.get("expiresAt"))),
        ("WhatsApp id", message.get("waMessageId") or ""),
    ]
