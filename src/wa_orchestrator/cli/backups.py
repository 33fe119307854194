"""The commands around backups: create, list, verify, restore, delete, download, upload."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.operations import PassphraseFile, confirmed, follow, passphrase_from
from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.cli.output import ago, plain, print_json, print_table
from wa_orchestrator.sizes import size

_ORDER_TIMEOUT_S = 90.0
_VERIFY_TIMEOUT_S = 3600.0

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Create, list, verify, restore and delete backups.",
    epilog="Example: wa-orchestrator backups create",
)
BackupId = Annotated[str, typer.Argument(metavar="ID", help="The backup, for example backup_2026-11-15.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def create(
    ctx: typer.Context,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is made.")] = True,
    as_json: JsonFlag = False,
) -> None:
    """Back up all sessions now; each worker pauses only while its own folder is copied."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    operation = api.call("POST", "/api/v1/backups/create", timeout_s=_ORDER_TIMEOUT_S).data
    if wait:
        operation = follow(api, operation, quiet=options.as_json)
    if options.as_json:
        print_json(operation)
    elif not wait:
        typer.echo("Begun. `wa-orchestrator backups list` shows it when it is made.")
    else:
        _tell_created(operation["result"])


def _tell_created(result: dict[str, Any]) -> None:
    typer.echo(
        f"{result['backupId']}: {result['sessions']} sessions, {size(result['bytes'])}, {result['ms'] / 1000:.1f} s; "
        f"longest pause of a session {result['longestPauseMs'] / 1000:.1f} s."
    )
    for session_id in result["skippedSessions"]:
        typer.echo(f"Left out: {plain(session_id)} (see the server's log)", err=True)
    if result["retired"]:
        typer.echo(f"Removed as too old: {', '.join(result['retired'])}.")


@app.command("list")
def list_(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List all backups, newest first."""
    options = options_of(ctx)
    answer = api_for(options).get("/api/v1/backups")
    if options.as_json:
        print_json(answer)
        return
    if not answer["backups"]:
        typer.echo("No backups yet: wa-orchestrator backups create")
        return
    print_table(("ID", "KIND", "MADE", "SESSIONS", "SIZE", "ENCRYPTED", "PROBLEM"), map(_row, answer["backups"]))


def _row(backup: Any) -> tuple[str, ...]:
    sessions = backup.get("sessions")
    return (
        backup["id"],
        backup["kind"],
        ago(backup["createdAt"]),
        "" if sessions is None else str(sessions),
        size(backup["bytes"]),
        "yes" if backup["encrypted"] else "",
        backup.get("problem") or "",
    )


@app.command(epilog="Example: wa-orchestrator backups verify backup_2026-11-15")
def verify(
    ctx: typer.Context, backup_id: BackupId, passphrase_file: PassphraseFile = None, as_json: JsonFlag = False
) -> None:
    """Check every byte of a backup; nothing is changed."""
    options = options_of(ctx)
    path = f"/api/v1/backups/{segment(backup_id)}/verify"
    body = _given(passphrase=passphrase_from(passphrase_file))
    found = api_for(options).call("POST", path, body=body, timeout_s=_VERIFY_TIMEOUT_S).data
    if options.as_json:
        print_json(found)
    else:
        typer.echo(
            f"{found['id']} is whole: {found['sessions']} sessions, {found['files']} files, {size(found['bytes'])}."
        )


@app.command(epilog="Example: wa-orchestrator backups restore backup_2026-11-15 --session worker_1 --session worker_2")
def restore(
    ctx: typer.Context,
    backup_id: BackupId,
    session: Annotated[list[str] | None, typer.Option(metavar="ID", help="Only this session; may be repeated.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also sessions whose live keys are newer; they may need a new scan.")
    ] = False,
    passphrase_file: PassphraseFile = None,
    yes: Yes = False,
    as_json: JsonFlag = False,
) -> None:
    """Restore sessions as they were; what is there now is set aside for some days."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    if not yes:
        held = api.get(f"/api/v1/backups/{segment(backup_id)}")
        which = ", ".join(map(plain, session)) if session else "ALL its sessions"
        confirmed(f"Put {which} back to what they were in {plain(held['id'])}, {ago(held['createdAt'])}?")
    body = _given(passphrase=passphrase_from(passphrase_file), sessions=session, force=force or None)
    path = f"/api/v1/backups/restore/{segment(backup_id)}"
    try:
        operation = api.call("POST", path, body=body, timeout_s=_ORDER_TIMEOUT_S).data
    except CliError as error:
        if error.code == "BACKUP_OLDER" and not options.as_json and isinstance(error.details, dict):
            typer.echo(f"Newer than the backup: {', '.join(map(plain, error.details['sessions']))}", err=True)
            error.message = "Those sessions may need a new scan afterwards. Add --force to restore them all the same."
        raise
    done = follow(api, operation, quiet=options.as_json)
    if options.as_json:
        print_json(done)
        return
    typer.echo(f"{len(done['result']['sessions'])} sessions restored; they connect one after the other.")
    for session_id in done["result"]["withoutSlot"]:
        typer.echo(f"Stopped, because no proxy has a free slot: {plain(session_id)}", err=True)


@app.command()
def delete(ctx: typer.Context, backup_id: BackupId, yes: Yes = False, as_json: JsonFlag = False) -> None:
    """Delete a backup."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    if not yes:
        confirmed(f"Delete {plain(api.get(f'/api/v1/backups/{segment(backup_id)}')['id'])}?")
    answer = api.call("DELETE", f"/api/v1/backups/{segment(backup_id)}").data
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['id']} is deleted.")


@app.command(epilog="Example: wa-orchestrator backups download backup_2026-11-15 /mnt/elsewhere/")
def download(
    ctx: typer.Context,
    backup_id: BackupId,
    target: Annotated[Path, typer.Argument(metavar="FILE|FOLDER", help="Where to; never overwritten.")],
    as_json: JsonFlag = False,
) -> None:
    """Copy a backup from the server to a file here. It holds credentials."""
    options, api = options_of(ctx), api_for(options_of(ctx))
    found = api.get(f"/api/v1/backups/{segment(backup_id)}")
    name = f"{found['id']}.zip{'.enc' if found['encrypted'] else ''}"
    file = target / name if target.is_dir() else target
    count = api.download(f"/api/v1/backups/{segment(backup_id)}/download", file)
    if options.as_json:
        print_json({"file": str(file), "bytes": count})
    else:
        typer.echo(f"{file}: {size(count)}")


@app.command()
def upload(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup from elsewhere.")],
    as_json: JsonFlag = False,
) -> None:
    """Bring a backup to the server, to restore it there."""
    options = options_of(ctx)
    answer = api_for(options).upload("/api/v1/backups/upload", file)
    if options.as_json:
        print_json(answer)
    else:
        typer.echo(f"{answer['id']}: {size(answer['bytes'])}")


def _given(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
