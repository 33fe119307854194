"""Following a backup, restore or export of the server until it has ended."""

from __future__ import annotations

import getpass
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli.api import Api
from wa_orchestrator.cli.errors import CliError

_LOOK_EVERY_S = 0.3
_WORDS = {
    "ordered": "waiting", "checking": "checking", "verifying": "checking every byte", "copying": "copying",
    "writing": "writing", "extracting": "extracting", "swapping": "swapping folders",
    "rebuilding": "rebuilding the store",
}  # fmt: skip

PassphraseFile = Annotated[
    str | None,
    typer.Option(metavar="FILE|-", help="File with the backup's passphrase; - asks for it. Else the server's own."),
]


def follow(api: Api, operation: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """The ended operation; its failure becomes the command's. A bar shows how far it is."""
    if quiet or not sys.stderr.isatty():
        return _ended(api, operation, lambda _: None)
    from rich.console import Console  # noqa: PLC0415 - only for people
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("waiting", total=None)

        def show(now: dict[str, Any]) -> None:
            word = _WORDS.get(now["phase"], now["phase"])
            bar.update(task, description=word, completed=now["done"], total=now["total"] or None)

        return _ended(api, operation, show)


def _ended(api: Api, operation: dict[str, Any], show: Any) -> dict[str, Any]:
    wanted = operation["operationId"]
    while operation["state"] not in {"done", "failed"}:
        show(operation)
        time.sleep(_LOOK_EVERY_S)
        operation = api.get("/api/v1/backups/operation")["operation"] or {}
        if operation.get("operationId") != wanted:
            raise CliError("OPERATION_INTERRUPTED", "The server no longer knows this operation. Look at its log.")
    if operation["state"] == "failed":
        raise CliError.told_by_server(operation["error"] or {"code": "INTERNAL"})
    return operation


def passphrase_from(file: str | None) -> str | None:
    """Never an argument itself: those can be seen by everybody on the machine."""
    if file is None:
        return None
    if file == "-":
        return getpass.getpass("Passphrase: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    try:
        return Path(file).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeError) as error:
        raise CliError("NOT_READABLE", f"{file} cannot be read: {error}.") from None


def confirmed(question: str) -> None:
    """Asks on stderr: stdout belongs to --json."""
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    answer = typer.get_text_stream("stdin").readline()
    if not answer:
        raise CliError("NOT_CONFIRMED", "Nobody could be asked, so nothing was done. Add --yes.")
    if answer.strip().lower() not in {"y", "yes"}:
        raise CliError("NOT_CONFIRMED", "Nothing was done.")
