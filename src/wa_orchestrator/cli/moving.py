"""`sessions export` and `sessions import`: one session moves to another server without a new scan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wa_orchestrator.cli.api import api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.operations import PassphraseFile, confirmed, follow, passphrase_from
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import plain, print_json
from wa_orchestrator.sizes import size

_ORDER_TIMEOUT_S = 90.0


def export(
    ctx: typer.Context,
    session_id: Annotated[str, typer.Argument(metavar="ID", help="The session, for example worker_1.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; never overwritten.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Take a session to another server: it ends here for good and goes on where FILE is imported."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    if file.exists():
        raise CliError("FILE_EXISTS", f"{file} exists. Choose another name.")
    if not yes:
        api.get(f"/api/sessions/{segment(session_id)}")  # is there such a session at all?
        confirmed(f"{plain(session_id)} will not run here any more. Export it?")
    ordered = api.call("POST", f"/api/v1/sessions/{segment(session_id)}/export", timeout_s=_ORDER_TIMEOUT_S).data
    result = follow(api, ordered, quiet=options.as_json)["result"]
    count = api.download(f"/api/v1/backups/{segment(result['backupId'])}/download", file)
    if options.as_json:
        print_json({**result, "file": str(file)})
        return
    typer.echo(f"{file}: {size(count)}. It holds the session's credentials: carry it safely, then delete it.")
    typer.echo(f"On the other server: wa-orchestrator sessions import {file.name}")


def import_(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `sessions export` has written.")],
    proxy: Annotated[
        str | None, typer.Option(metavar="URL|ID", help="Another proxy than the one it had on the other server.")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Which one, if FILE holds several.")] = None,
    passphrase_file: PassphraseFile = None,
    as_json: JsonFlag = False,
) -> None:
    """Go on with a session that was exported from another server; nobody needs to scan."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    uploaded = api.upload("/api/v1/backups/upload", file)
    given = {
        "backupId": uploaded["id"], "proxy": proxy, "sessionId": session,
        "passphrase": passphrase_from(passphrase_file),
    }  # fmt: skip
    try:
        body = {key: value for key, value in given.items() if value is not None}
        ordered = api.call("POST", "/api/v1/sessions/import", body=body, timeout_s=_ORDER_TIMEOUT_S).data
        result = follow(api, ordered, quiet=options.as_json)["result"]
    finally:
        # the server's own copy of the credentials is not needed any more, whatever came of it
        api.call("DELETE", f"/api/v1/backups/{segment(uploaded['id'])}")
    if options.as_json:
        print_json(result)
        return
    (session_id,) = result["sessions"]
    if result["withoutSlot"]:
        typer.echo(f"{session_id} is here, but stopped: no proxy has a free slot. Add one, then start it.")
    else:
        typer.echo(f"{session_id} is here and connects by itself: wa-orchestrator sessions show {session_id}")
