"""The commands around sessions: create, look, scan, restart, delete."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from wa_orchestrator.cli import moving
from wa_orchestrator.cli import qr as codes
from wa_orchestrator.cli.api import Api, api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.fleet import rolling_restart, running_sessions
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, place, plain, print_fields, print_json, print_table

_PAGE = 100

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Create, look at, scan, restart and delete sessions.",
    epilog="Example: wa-orchestrator sessions create --phone 972501234567 --qr",
)
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The session, for example worker_1.")]
SessionIds = Annotated[list[str], typer.Argument(metavar="ID", help="One session or several.")]
Timeout = Annotated[float, typer.Option(help="Seconds to wait at most.", min=0)]


@app.command(epilog="Example: wa-orchestrator sessions create --phone 972501234567 --proxy px_0123456789ab --qr")
def create(
    ctx: typer.Context,
    phone: Annotated[str | None, typer.Option(help="Expected number, international: 972501234567.")] = None,
    proxy: Annotated[str | None, typer.Option(metavar="URL|ID", help="A proxy instead of the automatic one.")] = None,
    id: Annotated[str | None, typer.Option(help="The session's id. Otherwise worker_ and the next number.")] = None,
    label: Annotated[str | None, typer.Option(help="A name for people.")] = None,
    allow_additional: Annotated[
        bool, typer.Option("--allow-additional", help="The phone may already be on a live session.")
    ] = False,
    rebind: Annotated[
        bool, typer.Option("--rebind", help="Choose another proxy if the phone's own one is full.")
    ] = False,
    qr: Annotated[bool, typer.Option("--qr", help="Wait for the QR code and draw it.")] = False,
    timeout: Timeout = 300,
    as_json: JsonFlag = False,
) -> None:
    """Make a session, reserve its proxy and start its worker."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    body = {"phone": phone, "proxy": proxy, "sessionId": id, "label": label,
            "allowAdditional": allow_additional or None, "rebind": rebind or None}  # fmt: skip
    made = api.post("/api/sessions/provision", {key: value for key, value in body.items() if value is not None})
    until = time.monotonic() + timeout
    if options.as_json:
        code = codes.wait_for_code(api, made["sessionId"], until=until) if qr else {}
        print_json({**made, **{key: code[key] for key in ("qr", "expiresAt") if key in code}})
        return
    typer.echo(f"{made['sessionId']} is {made['status']} on proxy {place(made['proxy'])}.")
    if qr and sys.stdout.isatty():
        codes.watch(api, made["sessionId"], until=until, as_json=False)
    elif qr:
        codes.show(codes.wait_for_code(api, made["sessionId"], until=until))
    else:
        typer.echo(f"Next: wa-orchestrator sessions qr {made['sessionId']} --watch")


@app.command("list", epilog="Example: wa-orchestrator sessions list --status connected --limit 20")
def list_(
    ctx: typer.Context,
    status: Annotated[str | None, typer.Option(help="Only those in this state, for example connected.")] = None,
    search: Annotated[str | None, typer.Option(help="Part of an id, a phone or a label.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 50,
    as_json: JsonFlag = False,
) -> None:
    """List sessions."""
    options = options_of(ctx)
    page = _collect(api_for(options), status=status, search=search, limit=limit)
    if options.as_json:
        print_json(page)
        return
    rows = page["sessions"]
    if not rows:
        typer.echo("No session fits." if status or search else "No sessions yet: wa-orchestrator sessions create --qr")
        return
    print_table(("ID", "STATUS", "PHONE", "PROXY", "LAST PING", "LABEL", "REASON"), [_row(s) for s in rows])
    if page["total"] > len(rows):
        typer.echo(f"{len(rows)} of {page['total']}; --limit shows more.")


@app.command()
def show(ctx: typer.Context, session_id: SessionId, as_json: JsonFlag = False) -> None:
    """Show everything about one session."""
    options = options_of(ctx)
    session = api_for(options).get(f"/api/sessions/{segment(session_id)}")
    if options.as_json:
        print_json(session)
    else:
        print_fields(_fields(session))


@app.command(epilog="Example: wa-orchestrator sessions qr worker_1 --watch")
def qr(
    ctx: typer.Context,
    session_id: SessionId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until there is a code.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Draw every new code until the phone is connected.")] = False,
    timeout: Timeout = 300,
    as_json: JsonFlag = False,
) -> None:
    """Draw the session's QR code in the terminal."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    until = time.monotonic() + timeout
    if watch:
        codes.watch(api, session_id, until=until, as_json=options.as_json)
        return
    code = codes.wait_for_code(api, session_id, until=until) if wait else codes.current_code(api, session_id)
    if options.as_json:
        print_json(code)
    else:
        codes.show(code)


@app.command("pairing-code", epilog="Example: wa-orchestrator sessions pairing-code worker_1 972501234567")
def pairing_code(
    ctx: typer.Context,
    session_id: SessionId,
    phone: Annotated[str, typer.Argument(help="The phone's number, international: 972501234567.")],
    as_json: JsonFlag = False,
) -> None:
    """Get an eight-character code to type into the phone instead of scanning."""
    options = options_of(ctx)
    answer = api_for(options).post(f"/api/sessions/{segment(session_id)}/pairing-code", {"phone": phone})
    if options.as_json:
        print_json(answer)
        return
    code: str = answer["code"]
    typer.echo(f"{code[:4]}-{code[4:]}" if len(code) == 8 else code)
    typer.echo("On the phone: WhatsApp → Settings → Linked devices → Link a device → Link with phone number instead.")


@app.command(epilog="Example: wa-orchestrator sessions restart --all --rolling")
def restart(
    ctx: typer.Context,
    session_ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="One session or several.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All sessions that are meant to run.")] = False,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="One after the other; stops if one does not come back.")
    ] = False,
    timeout: Timeout = 60.0,
    as_json: JsonFlag = False,
) -> None:
    """Restart the workers of sessions; nobody needs to scan again."""
    if bool(session_ids) == everything:
        raise CliError("USAGE", "Name sessions, or say --all.", exit_code=2)
    chosen = session_ids or running_sessions(api_for(options_of(ctx)))
    if not chosen:
        raise CliError("NOTHING_TO_DO", "No session is meant to run.")
    _for_each(ctx, chosen, rolling_restart(timeout) if rolling else _order("restart"), stop_at_failure=rolling)


@app.command()
def stop(ctx: typer.Context, session_ids: SessionIds, as_json: JsonFlag = False) -> None:
    """Stop the workers of sessions; they stay linked."""
    _for_each(ctx, session_ids, _order("stop"))


@app.command()
def start(ctx: typer.Context, session_ids: SessionIds, as_json: JsonFlag = False) -> None:
    """Start stopped sessions."""
    _for_each(ctx, session_ids, _order("start"))


@app.command()
def logout(ctx: typer.Context, session_ids: SessionIds, as_json: JsonFlag = False) -> None:
    """Unlink sessions from their phones; a new scan is needed afterwards."""
    _for_each(ctx, session_ids, _order("logout"))


@app.command(epilog="Example: wa-orchestrator sessions delete worker_1 worker_2 --yes")
def delete(
    ctx: typer.Context,
    session_ids: SessionIds,
    forget: Annotated[bool, typer.Option("--forget", help="Also forget which proxy the phone belongs to.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Delete sessions: the worker is stopped and the slot is free; the auth folder is kept aside for some days."""
    if not yes:
        _ask(f"Delete {', '.join(plain(one) for one in session_ids)}?")

    def act(api: Api, session_id: str) -> Any:
        query = {"forget": "true" if forget else None}
        return api.call("DELETE", f"/api/sessions/{segment(session_id)}", query=query).data

    _for_each(ctx, session_ids, act)


# last, so that the help lists them last
app.command(epilog="Example: wa-orchestrator sessions export worker_1 worker_1.zip")(moving.export)
app.command("import", epilog="Example: wa-orchestrator sessions import worker_1.zip")(moving.import_)


def _ask(question: str) -> None:
    # not typer.confirm: that one writes to stdout, which --json needs for itself
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = typer.get_text_stream("stdin").readline()
    if not answer:
        raise CliError("NOT_CONFIRMED", "Nobody could be asked, so nothing was deleted. Add --yes.")
    if answer.strip().lower() not in {"y", "yes"}:
        raise CliError("NOT_CONFIRMED", "Nothing was deleted.")


def _order(verb: str) -> Callable[[Api, str], Any]:
    return lambda api, session_id: api.post(f"/api/sessions/{segment(session_id)}/{verb}")


def _for_each(
    ctx: typer.Context, session_ids: list[str], act: Callable[[Api, str], Any], *, stop_at_failure: bool = False
) -> None:
    """Does it for every session, also after a failure. One id: its answer; several: a list, failures included."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    if len(session_ids) == 1:
        _tell(act(api, session_ids[0]), as_json=options.as_json)
        return
    answers: list[Any] = []
    for session_id in session_ids:
        try:
            answers.append(act(api, session_id))
        except CliError as error:
            answers.append({"sessionId": session_id, "error": error.as_object()})
        if not options.as_json:
            _tell(answers[-1], as_json=False)
        if stop_at_failure and "error" in answers[-1]:
            break
    if options.as_json:
        print_json(answers)
    if any("error" in answer for answer in answers):
        raise typer.Exit(1)


def _tell(answer: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    elif "error" in answer:
        typer.echo(f"{plain(answer['sessionId'])}: {answer['error']['message']}", err=True)
    else:
        typer.echo(f"{answer['sessionId']}: {'deleted' if answer.get('deleted') else answer['status']}")


def _collect(api: Api, *, status: str | None, search: str | None, limit: int) -> dict[str, Any]:
    """Follows the pages until `limit` sessions are there."""
    found: list[Any] = []
    cursor: str | None = None
    while True:
        page = api.get("/api/sessions", status=status, search=search, limit=min(_PAGE, limit - len(found)),
                       cursor=cursor)  # fmt: skip
        found += page["sessions"]
        cursor = page.get("nextCursor")
        if not cursor or not page["sessions"] or len(found) >= limit:
            return {"sessions": found, "nextCursor": cursor, "total": page["total"]}


def _row(session: Any) -> tuple[str, ...]:
    return (
        session["sessionId"],
        session["status"],
        session.get("phone") or "",
        place(session.get("proxy")),
        ago(session.get("lastPing")),
        session.get("label") or "",
        session.get("reason") or "",
    )


def _fields(session: Any) -> list[tuple[str, str]]:
    lost, worker = session.get("lastDisconnect") or {}, session.get("worker") or {}
    proxy = session.get("proxy")
    return [
        ("Session", session["sessionId"]),
        ("Status", session["status"]),
        ("Reason", session.get("reason") or ""),
        ("Wanted", session.get("wanted") or ""),
        ("Phone", session.get("phone") or ""),
        ("Label", session.get("label") or ""),
        ("Proxy", f"{place(proxy)} ({proxy['id']})" if proxy else "none"),
        ("Created", session.get("createdAt") or ""),
        ("Connected", session.get("connectedAt") or ""),
        ("Last ping", ago(session.get("lastPing"))),
        ("Disconnected", " ".join(str(lost[key]) for key in ("at", "reason", "code") if lost.get(key))),
        ("Restarts", str(session.get("restarts") or 0)),
        ("Worker", worker.get("connection") or ""),
        ("Memory", f"{worker['rssBytes'] / 1e6:.0f} MB" if worker.get("rssBytes") else ""),
        *[(f"Metadata {key}", str(value)) for key, value in (session.get("metadata") or {}).items()],
    ]
