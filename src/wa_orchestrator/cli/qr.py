"""QR codes in the terminal: waits for one, draws it, draws the next until the phone is connected."""

from __future__ import annotations

import io
import sys
import time
from typing import Any

import typer

from wa_orchestrator.cli.api import Api, segment
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.output import plain, print_json_line

_PAUSE_S = 0.5
_ENDED = {"failed", "stopped", "logged_out"}
_HOW = "On the phone: WhatsApp → Settings → Linked devices → Link a device."
# white on black whatever the terminal's own colours are: phones read light codes on a dark ground badly, and vice versa
_WHITE_ON_BLACK, _RESET, _CLEAR = "\x1b[97;40m", "\x1b[0m", "\x1b[H\x1b[2J"


def drawn(code: str, *, colour: bool) -> str:
    """The code as half blocks, two rows per line."""
    import segno  # noqa: PLC0415 - only where a code is drawn

    out = io.StringIO()
    segno.make(code, error="l", micro=False).terminal(out, border=2, compact=True)
    lines = out.getvalue().splitlines()
    return "\n".join(f"{_WHITE_ON_BLACK}{line}{_RESET}" if colour else line for line in lines)


def current_code(api: Api, session_id: str) -> dict[str, Any]:
    found: dict[str, Any] = api.get(f"/api/sessions/{segment(session_id)}/qr")
    return found


def wait_for_code(api: Api, session_id: str, *, until: float) -> dict[str, Any]:
    """The code as soon as there is one; an error when the session ends or `until` (monotonic) has come."""
    while True:
        try:
            return current_code(api, session_id)
        except CliError as error:
            if error.code != "QR_NOT_READY":
                raise
        _check_still_coming(api, session_id)
        if time.monotonic() >= until:
            raise CliError(
                "QR_NOT_READY", f"No QR code came in time. See `wa-orchestrator sessions show {session_id}`."
            )
        time.sleep(_PAUSE_S)


def show(code: dict[str, Any]) -> None:
    typer.echo(drawn(code["qr"], colour=sys.stdout.isatty()))
    typer.echo(_HOW)


def watch(api: Api, session_id: str, *, until: float, as_json: bool) -> None:
    """Draws every new code until the session is connected."""
    last = ""
    while True:
        try:
            code = wait_for_code(api, session_id, until=until)
        except CliError as error:
            if error.code != "ALREADY_CONNECTED":
                raise
            _say_connected(session_id, as_json=as_json)
            return
        if code["qr"] != last:
            last = code["qr"]
            _draw_again(code, as_json=as_json)
        if time.monotonic() >= until:
            raise CliError("NOT_SCANNED", "The code was not scanned in time. Run the command again for a new one.")
        time.sleep(_PAUSE_S)


def _draw_again(code: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json_line({"qr": code["qr"], "expiresAt": code.get("expiresAt")})
        return
    if sys.stdout.isatty():
        typer.echo(_CLEAR, nl=False)
    show(code)


def _say_connected(session_id: str, *, as_json: bool) -> None:
    if as_json:
        print_json_line({"sessionId": session_id, "status": "connected"})
    else:
        typer.echo(f"{session_id} is connected.")


def _check_still_coming(api: Api, session_id: str) -> None:
    session = api.get(f"/api/sessions/{segment(session_id)}")
    status = session["status"]
    if status == "connected":
        raise CliError("ALREADY_CONNECTED", "This session is connected; it needs no code.")
    if status in _ENDED:
        why = f" ({plain(session['reason'])})" if session.get("reason") else ""
        raise CliError(
            "SESSION_ENDED",
            f"No code will come: the session is {status}{why}. "
            f"Start it again with `wa-orchestrator sessions start {session_id}`.",
        )
