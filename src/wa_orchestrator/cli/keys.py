"""The commands around API keys: create, list, revoke, rotate, and the audit log."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import Api, api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.moments import HELP, local, read_moment
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, plain, print_json, print_table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="API keys with rights, and who did what with them.",
    epilog="Example: wa-orchestrator keys create shop --right send --session worker_7",
)
NameOrId = Annotated[str, typer.Argument(metavar="NAME|ID", help="The key, see `keys list`.")]


@app.command(epilog="Example: wa-orchestrator keys create shop --right send --session worker_7 --rate 120")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Letters, digits and . _ -; it stands in the audit log.")],
    rights: Annotated[list[str], typer.Option("--right", help="read, send, manage or admin; give it again for more.")],
    sessions: Annotated[
        list[str] | None, typer.Option("--session", help="Only for this session; give it again for more.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", metavar="TIME", help=HELP)] = None,
    rate: Annotated[int | None, typer.Option("--rate", help="Calls and messages per minute at most.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="For yourself.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key. It is shown this once and kept as a hash only."""
    body: dict[str, object] = {"name": name, "rights": rights}
    if sessions:
        body["sessions"] = sessions
    if expires:
        body["expiresAt"] = read_moment("--expires", expires)
    if rate is not None:
        body["ratePerMinute"] = rate
    if note:
        body["note"] = note
    options = options_of(ctx)
    _show_new(api_for(options).post("/api/v1/keys", body), as_json=options.as_json)


@app.command("list")
def list_(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List the keys: rights, sessions, end, last use. Never the keys themselves."""
    options = options_of(ctx)
    answer = api_for(options).get("/api/v1/keys")
    if options.as_json:
        print_json(answer)
    elif answer["keys"]:
        columns = ("ID", "NAME", "BEGINS WITH", "RIGHTS", "SESSIONS", "PER MINUTE", "STATE", "LAST USED")
        print_table(columns, [_row(key) for key in answer["keys"]])
    else:
        typer.echo("No keys besides API_KEY. Make one: wa-orchestrator keys create NAME --right send")


@app.command()
def revoke(ctx: typer.Context, key: NameOrId, as_json: JsonFlag = False) -> None:
    """Revoke a key for good; within two seconds no server takes it any more."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    answer = api.call("DELETE", f"/api/v1/keys/{segment(_id_of(api, key))}").data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['name']} is revoked.")


@app.command()
def rotate(ctx: typer.Context, key: NameOrId, as_json: JsonFlag = False) -> None:
    """Give a key a new secret; name, rights and limits stay, the old secret ends at once."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    _show_new(api.post(f"/api/v1/keys/{segment(_id_of(api, key))}/rotate"), as_json=options.as_json)


@app.command(epilog="Example: wa-orchestrator keys audit --by shop")
def audit(
    ctx: typer.Context,
    by: Annotated[str | None, typer.Option("--by", help="Only of this key or person (user:dana).")] = None,
    on: Annotated[str | None, typer.Option("--on", help="Only about this session, number, key or message.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500)] = 50,
    as_json: JsonFlag = False,
) -> None:
    """Who changed what, newest first."""
    options = options_of(ctx)
    answer = api_for(options).get("/api/v1/audit", by=by, on=on, limit=limit)
    if options.as_json:
        print_json(answer)
        return
    if not answer["lines"]:
        typer.echo("No change fits.")
        return
    print_table(("WHEN", "WHO", "WHAT", "ON", "OUTCOME"), [
        (local(line["at"]), line["by"], line["what"], line["on"] or "",
         line["outcome"] + (f" {line['code']}" if line["code"] else ""))
        for line in answer["lines"]
    ])  # fmt: skip


def _id_of(api: Api, key: str) -> str:
    """A key may be named by its id or by its name."""
    if key.startswith("key_"):
        return key
    for known in api.get("/api/v1/keys")["keys"]:
        if known["name"] == key:
            return str(known["id"])
    raise CliError("KEY_NOT_FOUND", f"There is no key {plain(key)}. `wa-orchestrator keys list` shows them.")


def _show_new(answer: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
        return
    typer.echo(answer["key"])
    typer.echo(f"This is the key of {answer['name']} ({', '.join(answer['rights'])}). It is not shown again.", err=True)


def _row(key: Any) -> tuple[str, ...]:
    state = "off" if key["disabled"] else "expired" if key["expired"] else f"until {local(key['expiresAt'])}"
    return (
        key["id"],
        key["name"],
        key["shown"] + "…",
        ", ".join(key["rights"]),
        "all" if key["sessions"] is None else ", ".join(key["sessions"]),
        str(key["ratePerMinute"] or ""),
        state if key["expiresAt"] or key["disabled"] else "on",
        ago(key["lastUsedAt"]),
    )
