"""`wa-orchestrator phones`: simulated phones, to do by hand what a person does with a real one."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Annotated, Any

import typer

from wa_orchestrator.cli import output
from wa_orchestrator.cli.api import api_for, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.options import JsonFlag, Options, options_of
from wa_orchestrator.cli.output import ago
from wa_orchestrator.cli.qr import wait_for_code
from wa_orchestrator.clock import iso

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Simulated phones (only with `up --simulate`).")
_TIMEOUT_S = 20.0
_WAIT_FOR_CODE_S = 30.0

Phone = Annotated[str, typer.Argument(help="The phone's number, digits: 972500000001.")]


@app.command()
def scan(
    ctx: typer.Context,
    phone: Phone,
    session_id: Annotated[str, typer.Argument(metavar="SESSION", help="Whose code to scan.")],
    as_json: JsonFlag = False,
) -> None:
    """Scan a session's QR code with a simulated phone. Example: wa-orchestrator phones scan 972500000001 worker_1"""
    options = options_of(ctx)
    code = wait_for_code(api_for(options), session_id, until=time.monotonic() + _WAIT_FOR_CODE_S)
    answer = _control(options, "POST", f"/phones/{segment(phone)}/scan", {"qr": code["qr"]})
    _tell(options, answer, f"Phone {phone} scanned the code of {session_id}.")


@app.command()
def add(ctx: typer.Context, phone: Phone, as_json: JsonFlag = False) -> None:
    """Make a simulated phone: a number that is on WhatsApp."""
    options = options_of(ctx)
    _tell(options, _control(options, "POST", "/phones", {"phone": phone}), f"Phone {phone} is there.")


@app.command()
def send(
    ctx: typer.Context,
    phone: Phone,
    to: Annotated[str, typer.Argument(help="The number it writes to.")],
    text: Annotated[str, typer.Argument(help="What it writes.")],
    as_json: JsonFlag = False,
) -> None:
    """Write a text with a simulated phone."""
    options = options_of(ctx)
    answer = _control(options, "POST", f"/phones/{segment(phone)}/send", {"to": to, "text": text})
    _tell(options, answer, f"Phone {phone} wrote to {to}.")


@app.command()
def inbox(ctx: typer.Context, phone: Phone, as_json: JsonFlag = False) -> None:
    """Show what a simulated phone received."""
    options = options_of(ctx)
    messages = _control(options, "GET", f"/phones/{segment(phone)}/inbox")
    if options.as_json:
        output.print_json(messages)
        return
    rows = [
        (ago(iso(m.get("at"))), str(m.get("from", "")), str(m.get("kind", "text")), str(m.get("text") or ""),
         str(m.get("copies", 1)))
        for m in messages
    ]  # fmt: skip
    output.print_table(("at", "from", "kind", "text", "copies"), rows)


@app.command()
def unlink(ctx: typer.Context, phone: Phone, as_json: JsonFlag = False) -> None:
    """Remove all linked devices on a simulated phone, as its owner would."""
    options = options_of(ctx)
    answer = _control(options, "POST", f"/phones/{segment(phone)}/unlink", {})
    _tell(options, answer, f"Phone {phone} removed its linked devices.")


def _tell(options: Options, answer: Any, sentence: str) -> None:
    if options.as_json:
        output.print_json(answer)
    else:
        typer.echo(sentence)


def _control(options: Options, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Calls the simulator that `up --simulate` wrote down in the data folder."""
    request = urllib.request.Request(  # noqa: S310 - our own address from our own file
        _simulator_url(options) + path,
        method=method,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        told = json.loads(error.read() or b"{}").get("error", {})
        raise CliError(told.get("code", "SIMULATOR_ERROR"), _sentence(told.get("message", str(error)))) from None
    except (urllib.error.URLError, OSError):
        raise CliError(
            "NO_SIMULATOR", "The simulated WhatsApp does not answer. Start it: `wa-orchestrator up --simulate`."
        ) from None


def _sentence(told: str) -> str:
    """The simulator's words in those of the command line."""
    told = told.replace("create it with POST /phones", "make it with `wa-orchestrator phones add NUMBER`")
    return f"{told[:1].upper()}{told[1:].rstrip('.')}."


def _simulator_url(options: Options) -> str:
    file = options.data_path() / "server.json"
    try:
        url = json.loads(file.read_text(encoding="utf-8")).get("simulator")
    except (OSError, ValueError):
        url = None
    if not isinstance(url, str):
        raise CliError(
            "NO_SIMULATOR", "There is no simulated WhatsApp here. Start one: `wa-orchestrator up --simulate`."
        )
    return url
