"""The command line `wa-orchestrator`: which commands there are, and how their errors are told.

A command's module is imported when it is used and not before, so that the command line answers at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from wa_orchestrator import __version__
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.options import Options
from wa_orchestrator.errors import OrchestratorError, SettingsError


@dataclass(frozen=True)
class _Command:
    """Where a command is: a function, or a Typer application with commands of its own."""

    name: str
    module: str
    attribute: str
    help: str

    def load(self) -> Any:
        found = getattr(import_module(self.module), self.attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(add_completion=False)
            alone.command(self.name)(found)
            found = alone
        loaded = typer.main.get_command(found)
        loaded.name = self.name
        _hide_type_of_flags(loaded)
        return loaded


def _hide_type_of_flags(command: Any) -> None:
    """`--json <bool>` in the help looks as if a value had to follow."""
    for option in (*command.params, command.get_help_option(typer.Context(command))):
        if getattr(option, "is_flag", False):
            option.metavar = ""
    for below in getattr(command, "commands", {}).values():
        _hide_type_of_flags(below)


# To add a command: write its module, add its line here.
_COMMANDS = {
    command.name: command
    for command in (
        _Command("up", "wa_orchestrator.cli.up", "up", "Run the server, with an embedded store and local workers."),
        _Command("gateway", "wa_orchestrator.cli.gateway", "gateway", "Run only the side that accepts messages."),
        _Command(
            "dispatcher", "wa_orchestrator.cli.dispatcher", "dispatcher", "Run only the side that paces messages."
        ),
        _Command("sessions", "wa_orchestrator.cli.sessions", "app", "Create, look at, scan, restart, delete sessions."),
        _Command("send", "wa_orchestrator.cli.send", "send", "Send a message, or many from a CSV file."),
        _Command("messages", "wa_orchestrator.cli.messages", "app", "List, follow, cancel and redrive messages."),
        _Command("limits", "wa_orchestrator.cli.limits", "app", "Look at and change how fast phones send."),
        _Command("proxies", "wa_orchestrator.cli.proxies", "app", "Add, look at, check, remove and import proxies."),
        _Command("alerts", "wa_orchestrator.cli.alerts", "app", "Look at alerts, and test where they go."),
        _Command("backups", "wa_orchestrator.cli.backups", "app", "Create, list, verify, restore and delete backups."),
        _Command("suppression", "wa_orchestrator.cli.suppression", "app", "Numbers that get no messages."),
        _Command("keys", "wa_orchestrator.cli.keys", "app", "API keys with rights, and who did what with them."),
        _Command("webhooks", "wa_orchestrator.cli.webhooks", "app", "Post events to your programs; dead letters."),
        _Command("events", "wa_orchestrator.cli.events", "events", "Print events as they happen, or from a number on."),
        _Command("users", "wa_orchestrator.cli.users", "app", "People who may sign in to the dashboard."),
        _Command(
            "egress", "wa_orchestrator.cli.egress", "egress", "Run the relay that leads workers to their proxies."
        ),
        _Command(
            "docker-filter",
            "wa_orchestrator.cli.docker_filter",
            "docker_filter",
            "Run the filter between the server and the Docker engine.",
        ),
        _Command("doctor", "wa_orchestrator.cli.doctor", "doctor", "Check the installation and say what to fix."),
        _Command("phones", "wa_orchestrator.cli.phones", "app", "Simulated phones: scan, write, read."),
        _Command("simulator", "wa_orchestrator.cli.simulator", "simulator", "Run the simulated WhatsApp alone."),
    )
}


class _TopCommand(TyperGroup):
    """Lists the commands without importing them, and turns errors into one sentence."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for command in _COMMANDS.values():
            self.add_command(TyperCommand(command.name, help=command.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, _COMMANDS[name].load() if name in _COMMANDS else listed, rest

    def main(self, args: Sequence[str] | None = None, *given: Any, **named: Any) -> NoReturn:
        words = list(sys.argv[1:] if args is None else args)
        named["standalone_mode"] = False  # errors come to us
        _hide_type_of_flags(self)
        try:
            code = super().main(words, *given, **named)
        except (CliError, OrchestratorError, SettingsError, typer.TyperException, typer.Abort) as error:
            # before the options are read, only the words themselves say how errors are wanted
            code = _tell(_as_cli_error(error), as_json="--json" in words)
        sys.exit(code or 0)


def _as_cli_error(error: Exception) -> CliError:
    if isinstance(error, CliError):
        return error
    if isinstance(error, OrchestratorError):
        return CliError.told_by_server({"code": error.code, "message": error.message, "details": error.details})
    if isinstance(error, SettingsError):
        return CliError("INVALID_SETTING", str(error))
    if isinstance(error, typer.TyperException):
        return _usage_error(error)
    return CliError("STOPPED", "Stopped.")


def _usage_error(error: typer.TyperException) -> CliError:
    message = error.format_message().strip()
    ctx = getattr(error, "ctx", None)
    if message and ctx is not None:
        end = "" if message.endswith(("?", ".")) else "."
        message = f"{message}{end} See `{ctx.command_path} --help`."
    return CliError("USAGE", message, exit_code=error.exit_code)


def _tell(error: CliError, *, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps({"error": error.as_object()}, ensure_ascii=False, indent=2))
    elif error.message:  # empty: the help was shown instead
        typer.echo(error.message, err=True)
    return error.exit_code


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wa-orchestrator {__version__}")
        raise typer.Exit


app = typer.Typer(cls=_TopCommand, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback(
    epilog="Examples:\n\n"
    "wa-orchestrator doctor\n\n"
    "wa-orchestrator up\n\n"
    "wa-orchestrator proxies add socks5h://user:pass@proxy.example:1080\n\n"
    "wa-orchestrator sessions create --phone 972501234567 --qr\n\n"
    'wa-orchestrator send 972507654321 "Hello" --wait\n\n'
    "wa-orchestrator sessions list --json"
)
def _top(
    ctx: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(help="Where the server is. Else ORCH_URL, else what `up` wrote into the data folder."),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The server's API key. Else API_KEY, else the one in the data folder.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="The server's data folder. Else DATA_DIR, else ./data.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text, errors included.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Look after many WhatsApp accounts: one worker and one fixed exit address each."""
    ctx.obj = Options(url=url, api_key=api_key, data_dir=data_dir, as_json=as_json)


def main() -> None:
    """The console command."""
    app(prog_name="wa-orchestrator")
