"""`wa-orchestrator users`: people who may sign in to the dashboard. Works on the store, with or without a server."""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from wa_orchestrator.cli import output
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.options import JsonFlag, Options, options_of
from wa_orchestrator.clock import SystemClock, iso
from wa_orchestrator.dashboard import passwords
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.audit import AuditLine
from wa_orchestrator.store.users import User
from wa_orchestrator.which_store import with_store_of

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="People who may sign in to the dashboard.",
    epilog="Example: wa-orchestrator users add dana",
)
T = TypeVar("T")
_NAME = re.compile(r"^[A-Za-z0-9._@-]{1,64}$")

Name = Annotated[str, typer.Argument(help="Letters, digits and . _ @ -")]


@app.command(epilog="Example: wa-orchestrator users add dana")
def add(
    ctx: typer.Context,
    name: Name,
    from_input: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input instead of asking.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Add a person, or give one a new password. Earlier sign-ins with the old password end."""
    if not _NAME.fullmatch(name):
        raise CliError("USAGE", "A name has 1 to 64 letters, digits or . _ @ -", exit_code=2)
    password = sys.stdin.readline().rstrip("\n") if from_input else _asked_password()
    clock = SystemClock()
    user = User(
        name=name,
        password_hash=passwords.hashed(password),
        generation=secrets.token_hex(8),
        created_at=clock.now_ms(),
    )
    new = _with_store(options_of(ctx), lambda store: store.users.put(user), what="users add", on=name)
    if options_of(ctx).as_json:
        output.print_json({"name": name, "added": new})
    else:
        typer.echo(f"{name} can sign in now." if new else f"{name} has a new password; earlier sign-ins have ended.")


@app.command("list")
def list_(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List who may sign in."""
    users = _with_store(options_of(ctx), lambda store: store.users.all())
    if options_of(ctx).as_json:
        output.print_json([{"name": user.name, "createdAt": iso(user.created_at)} for user in users])
    elif users:
        output.print_table(("NAME", "PASSWORD SET"), [(user.name, output.ago(iso(user.created_at))) for user in users])
    else:
        typer.echo("Nobody yet; the API key opens the dashboard. Add a person: wa-orchestrator users add NAME")


@app.command()
def remove(ctx: typer.Context, name: Name, as_json: JsonFlag = False) -> None:
    """Remove a person; their sign-ins end at once."""
    if not _with_store(options_of(ctx), lambda store: store.users.remove(name), what="users remove", on=name):
        raise CliError(
            "USER_NOT_FOUND", f"There is no user {output.plain(name)}. `wa-orchestrator users list` shows them."
        )
    if options_of(ctx).as_json:
        output.print_json({"name": name, "removed": True})
    else:
        typer.echo(f"{name} can no longer sign in.")


def _asked_password() -> str:
    return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))


def _with_store(options: Options, work: Callable[[Store], Awaitable[T]], *, what: str = "", on: str = "") -> T:
    """Runs on the installation's store: REDIS_URL, else the embedded one. `what` changes something: it is audited."""

    async def run() -> T:
        settings = with_store_of(load_settings(options.environ(), data_dir=options.data_dir))
        store = Store(settings.redis_url, SystemClock())
        try:
            done = await work(store)
            if what:
                await store.audit.add(AuditLine(by="cli", what=what, on=on, status=200))
            return done
        finally:
            await store.close()

    return asyncio.run(run())
