"""`wa-orchestrator send`: one message, or many from a CSV file."""

from __future__ import annotations

import mimetypes
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from wa_orchestrator.cli import send_csv
from wa_orchestrator.cli.api import Api, Content, api_for
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.files import readable
from wa_orchestrator.cli.messages import ended_badly, follow
from wa_orchestrator.cli.moments import HELP as TIME_HELP
from wa_orchestrator.cli.moments import local, read_moment
from wa_orchestrator.cli.options import JsonFlag, Options, options_of
from wa_orchestrator.cli.output import print_json, print_json_line

_UPLOAD_TIMEOUT_S = 300.0
_GOALS = ("sent", "delivered", "read")


def send(
    ctx: typer.Context,
    to: Annotated[
        str | None, typer.Argument(metavar="TO", help="The recipient: 972501234567, or a chat id (…@g.us).")
    ] = None,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="What it says; - reads it from standard input.")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="The session that sends it.")] = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="PHONE", help="The phone that sends it.")] = None,
    image: Annotated[str | None, typer.Option(metavar="URL|FILE", help="A picture; the text is its caption.")] = None,
    file: Annotated[str | None, typer.Option(metavar="URL|FILE", help="Any file, sent as a document.")] = None,
    caption: Annotated[str | None, typer.Option(help="The caption, if not given as TEXT.")] = None,
    at: Annotated[str | None, typer.Option(metavar="TIME", help=f"Send it then: {TIME_HELP}.")] = None,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Give up when it has not left by then.")] = None,
    priority: Annotated[int | None, typer.Option(min=1, max=3, help="1 goes before 2 (usual) before 3.")] = None,
    defer: Annotated[
        bool, typer.Option("--defer", help="If today's limit is used up: tomorrow, not an error.")
    ] = False,
    reference: Annotated[str | None, typer.Option(help="Your own name for it; shown in lists.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Idempotency key: the same key sends once in 24 hours. With --csv: a name for it."),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Follow it and tell each step, until --until.")] = False,
    until: Annotated[str, typer.Option(help="What --wait waits for: sent, delivered or read.")] = "sent",
    timeout: Annotated[float, typer.Option(help="Seconds --wait waits at most.", min=0)] = 300,
    csv: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="Many messages: one per line of a CSV file.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEMPLATE", help="With --csv: the text, {column} stands for the line's value.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --csv: only check the file.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Send a message, or many from a CSV file.

    The CSV file's first line names the columns: to, message, and if wanted sessionId, reference, scheduleAt, key; other
    columns can be used in --text. Running the same command again within 24 hours, after a cut or with corrected
    lines, sends no line twice: a line is known by the file's name and by what it says to whom. --key gives the file
    another name, to send it once more on purpose.

    Examples:

    wa-orchestrator send 972501234567 "Your order is ready" --wait

    wa-orchestrator send 972501234567 --image ./menu.jpg --caption "Today" --session worker_1

    wa-orchestrator send 972501234567 Reminder --at 2030-01-31T09:00 --key reminder-17

    wa-orchestrator send --csv customers.csv --text "Hello {name}, see you on {day}."
    """
    options = options_of(ctx)
    common = _common(session=session, from_=from_, at=at, expires=expires, priority=priority, defer=defer,
                     fixed_times=csv is not None)  # fmt: skip
    if csv is not None:
        _refuse_with_csv(to, words, reference, wait)
        media = _linked_only(image, file)
        file_of_messages = send_csv.CsvFile(csv, template=text, name=key, common=common, media=media, caption=caption)
        send_csv.run(options, file_of_messages, dry_run=dry_run)
        return
    if to is None:
        raise CliError(
            "USAGE", 'Say to whom and what: send 972501234567 "Hello". See `wa-orchestrator send --help`.', exit_code=2
        )
    if text is not None or dry_run:
        raise CliError("USAGE", "--text and --dry-run belong to --csv.", exit_code=2)
    if until not in _GOALS:
        raise CliError("USAGE", f"--until is one of {', '.join(_GOALS)}.", exit_code=2)
    api = api_for(options)
    message = _message(api, _text_of(words), image=image, file=file, caption=caption)
    body = {"to": to, "message": message, **common, "reference": reference, "idempotencyKey": key}
    _send_one(options, api, _given(body), goal=until if wait else None, timeout_s=timeout)


def _send_one(options: Options, api: Api, body: dict[str, Any], *, goal: str | None, timeout_s: float) -> None:
    answer = api.call("POST", "/api/v1/send", body=body)
    if goal is None:
        if options.as_json:
            print_json({**answer.data, "replayed": answer.replayed})
        else:
            _tell(answer.data, replayed=answer.replayed)
        return
    if not options.as_json:
        _tell(answer.data, replayed=answer.replayed, followed=True)
    end = time.monotonic() + timeout_s
    message = follow(api, answer.data["messageId"], goal=goal, until=end, as_json=options.as_json)
    if options.as_json:
        print_json_line(message)
    if ended_badly(message):
        raise typer.Exit(1)


def _tell(answer: dict[str, Any], *, replayed: bool, followed: bool = False) -> None:
    by = f" by {answer['sessionId']}" if answer.get("sessionId") else ""
    when = f", probably at {local(answer['estimatedSendAt'])}" if answer.get("estimatedSendAt") else ""
    known = " It was known already by its key: nothing new is sent." if replayed else ""
    stuck = "" if when or followed else f" It waits: see `wa-orchestrator messages show {answer['messageId']}`."
    typer.echo(f"{answer['messageId']} is queued{by}{when}.{known}{stuck}")


# what was typed ---------------------------------------------------------------------------------------------------
def _common(
    *, session: str | None, from_: str | None, at: str | None, expires: str | None, priority: int | None, defer: bool,
    fixed_times: bool,
) -> dict[str, Any]:  # fmt: skip
    if session and from_:
        raise CliError("USAGE", "Name the sender once: --session or --from.", exit_code=2)
    return _given({
        "sessionId": session,
        "from": from_,
        "scheduleAt": at and read_moment("--at", at, relative=not fixed_times),
        "expiresAt": expires and read_moment("--expires", expires, relative=not fixed_times),
        "priority": priority,
        "defer": defer or None,
    })  # fmt: skip


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _refuse_with_csv(to: str | None, words: list[str] | None, reference: str | None, wait: bool) -> None:
    if to is not None or words:
        raise CliError("USAGE", "With --csv the file says to whom; the text is --text or a column.", exit_code=2)
    if wait or reference is not None:
        raise CliError("USAGE", "--wait and --reference are for one message; a CSV file has a column.", exit_code=2)


def _text_of(words: list[str] | None) -> str | None:
    if words == ["-"]:
        return typer.get_text_stream("stdin").read().rstrip("\n")
    return " ".join(words) if words else None


def _is_url(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _linked_only(image: str | None, file: str | None) -> dict[str, Any] | None:
    """With --csv: an upload gets a new id each time, so a repeated command would mean other messages."""
    kind, place = _one_medium(image, file)
    if place is None:
        return None
    if not _is_url(place):
        raise CliError("USAGE", f"With --csv, --{'file' if file else 'image'} must be an address (https://…).",
                       exit_code=2)  # fmt: skip
    return {kind: _linked(kind, place)}


def _one_medium(image: str | None, file: str | None) -> tuple[str, str | None]:
    if image and file:
        raise CliError("USAGE", "Give --image or --file, not both: a message carries one.", exit_code=2)
    return ("document", file) if file else ("image", image)


def _linked(kind: str, url: str) -> dict[str, str]:
    name = Path(url.split("?", maxsplit=1)[0]).name
    return {"url": url, "fileName": name} if kind == "document" and name else {"url": url}


def _message(
    api: Api, text: str | None, *, image: str | None, file: str | None, caption: str | None
) -> str | dict[str, Any]:
    kind, place = _one_medium(image, file)
    if place is None:
        if caption is not None:
            raise CliError("USAGE", "--caption belongs to --image or --file.", exit_code=2)
        if text is None:
            raise CliError("USAGE", "Say what to send: a text, --image or --file.", exit_code=2)
        return text
    if text is not None and caption is not None:
        raise CliError("USAGE", "Give the caption once: as TEXT or as --caption.", exit_code=2)
    medium = _linked(kind, place) if _is_url(place) else _uploaded(api, kind, Path(place))
    return _given({kind: medium, "caption": caption if caption is not None else text})


def _uploaded(api: Api, kind: str, path: Path) -> dict[str, str]:
    with readable(path):
        data = path.read_bytes()
    type_ = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if kind == "image" and not type_.startswith("image/"):
        raise CliError("NOT_AN_IMAGE", f"{path} does not look like a picture. Send it with --file.")
    content = Content("application/octet-stream", data)
    answer = api.call("POST", "/api/v1/media", content=content, timeout_s=_UPLOAD_TIMEOUT_S).data
    medium = {"mediaId": answer["mediaId"], "mimetype": type_}
    return {**medium, "fileName": path.name} if kind == "document" else medium
