"""Many messages from a CSV file: read, checked, sent in pieces that can be repeated, summed up."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TextIO

import typer

from wa_orchestrator.cli.api import Api, Content, api_for
from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.files import text_of
from wa_orchestrator.cli.moments import read_moment
from wa_orchestrator.cli.options import Options
from wa_orchestrator.cli.output import plain, print_json
from wa_orchestrator.cli.wording import in_operators_words

# A request's answer must fit into the socket's buffers, since it is read after the whole body was sent.
_ROWS_PER_REQUEST = 500
_TRIES = 6
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 10.0
_PASSING = {"SERVER_CUT", "SERVER_SILENT", "SERVER_UNREACHABLE", "STORE_FULL", "STORE_UNAVAILABLE",
            "TOO_MANY_REQUESTS"}  # fmt: skip
_SHOWN_REFUSALS = 20
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
# what a column may be called → the field of the API
_FIELDS = {"sessionid": "sessionId", "reference": "reference", "scheduleat": "scheduleAt", "key": "idempotencyKey"}


@dataclass(frozen=True)
class Row:
    line: int
    body: dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    line: int
    code: str
    message: str


@dataclass
class Summary:
    rows: int = 0
    accepted: int = 0
    known: int = 0
    refused: list[Refusal] = field(default_factory=list)

    @property
    def settled(self) -> int:
        return self.accepted + self.known + len(self.refused)


def run(options: Options, file: CsvFile, *, dry_run: bool) -> None:
    """Sends the file's lines, or only checks them; exit status 1 when a line was refused."""
    if dry_run:
        summary = _checked(options, file)
    else:
        summary = Sender(api_for(options), file, progress_for(file, quiet=options.as_json)).run()
    _tell(options, summary, dry_run=dry_run)
    if summary.refused:
        raise typer.Exit(1)


# reading ----------------------------------------------------------------------------------------------------------
class CsvFile:
    """The rows of a file, each as the body of a message or with what is wrong with it."""

    def __init__(
        self,
        place: str,
        *,
        template: str | None,
        name: str | None,
        common: dict[str, Any],
        media: dict[str, Any] | None,
        caption: str | None,
    ) -> None:
        self._text = text_of(place, hint=" Save it as CSV UTF-8.")
        self._name = name if name is not None else Path(place).name
        self._template = caption if template is None and media else template
        self._common = common
        self._media = media
        self._delimiter = _delimiter_of(self._text)
        columns = [column.strip().lower() for column in next(self._records(), (0, []))[1]]
        self._columns = columns
        self._check_columns()

    def __len__(self) -> int:
        return sum(1 for _ in self._records()) - 1

    def rows(self) -> Iterator[Row | Refusal]:
        times: Counter[str] = Counter()  # the same line twice in one file is meant twice
        for line, cells in islice(self._records(), 1, None):
            row = self._row(line, cells)
            if isinstance(row, Row) and "idempotencyKey" not in row.body:
                what = self._key(row.body)
                times[what] += 1
                row.body["idempotencyKey"] = f"csv-{what}-{times[what]}"
            yield row

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """(line where it begins, cells) of every record; empty lines are passed over."""
        reader = csv.reader(io.StringIO(self._text, newline=""), delimiter=self._delimiter, strict=True)
        begins = 1
        try:
            for cells in reader:
                if any(cell.strip() for cell in cells):
                    yield begins, cells
                begins = reader.line_num + 1
        except csv.Error as error:
            raise CliError("INVALID_CSV", f"Line {begins} is not valid CSV: {error}.") from None

    def _check_columns(self) -> None:
        if "to" not in self._columns:
            raise CliError("INVALID_CSV", "The first line must name the columns, one of them `to`.")
        if len(set(self._columns)) < len(self._columns):
            raise CliError("INVALID_CSV", "Two columns have the same name.")
        if self._template is None and "message" not in self._columns and not self._media:
            raise CliError("INVALID_CSV", "There is no column `message`. Add it, or give the text with --text.")
        wanted = {m[1].strip().lower() for m in _PLACEHOLDER.finditer(self._template or "") if m[1] is not None}
        if missing := wanted - set(self._columns):
            raise CliError("INVALID_CSV", f"--text uses {{{min(missing)}}}, but there is no such column.")

    def _row(self, line: int, cells: list[str]) -> Row | Refusal:
        if len(cells) > len(self._columns):
            return Refusal(line, "TOO_MANY_CELLS", "It has more cells than the first line. Put texts in quotes.")
        values = dict(zip(self._columns, [*cells, *[""] * (len(self._columns) - len(cells))], strict=True))
        if not values["to"].strip():
            return Refusal(line, "NO_RECIPIENT", "The column `to` is empty.")
        text = values.get("message", "") if self._template is None else self._filled(values)
        if not text.strip() and not self._media:
            return Refusal(line, "NO_TEXT", "The text is empty.")
        own = {name: values[column].strip() for column, name in _FIELDS.items() if values.get(column, "").strip()}
        if "scheduleAt" in own:
            try:
                own["scheduleAt"] = read_moment("scheduleAt", own["scheduleAt"], relative=False)
            except CliError as error:
                return Refusal(line, "INVALID_TIME", error.message)
        common = {name: value for name, value in self._common.items() if name != "from" or "sessionId" not in own}
        return Row(line, {"to": values["to"].strip(), "message": self._message(text), **common, **own})

    def _filled(self, values: dict[str, str]) -> str:
        def value(found: re.Match[str]) -> str:
            return found[0][0] if found[1] is None else values[found[1].strip().lower()].strip()

        return _PLACEHOLDER.sub(value, self._template or "")

    def _message(self, text: str) -> str | dict[str, Any]:
        if not self._media:
            return text
        return {**self._media, "caption": text} if text.strip() else self._media

    def _key(self, body: dict[str, Any]) -> str:
        """What makes a line the same message in a repeated run. Not the line's number and not the whole file: who
        corrects one refused line and runs the command again would otherwise send all the others twice."""
        meant = json.dumps([self._name, body["to"], body["message"]], sort_keys=True)
        return hashlib.sha256(meant.encode()).hexdigest()[:40]


def _delimiter_of(text: str) -> str:
    """Comma, semicolon (as spreadsheets write in many countries) or tab: the one the first line is made with."""
    first = text.lstrip().split("\n", maxsplit=1)[0]
    return max(",;\t", key=first.count)


def _checked(options: Options, file: CsvFile) -> Summary:
    """The gateway's own checks of form, here: no server is asked, nothing is sent."""
    from wa_orchestrator.errors import OrchestratorError  # noqa: PLC0415 - pulls in the gateway, only for --dry-run
    from wa_orchestrator.gateway.accept import decode_send  # noqa: PLC0415
    from wa_orchestrator.gateway.content import ContentReader  # noqa: PLC0415
    from wa_orchestrator.gateway.recipient import recipient_jid  # noqa: PLC0415
    from wa_orchestrator.model.session import checked_session_id  # noqa: PLC0415
    from wa_orchestrator.settings import load_settings  # noqa: PLC0415

    settings = load_settings(options.environ())
    content = ContentReader(max_text=settings.max_text_length, max_media_bytes=settings.max_media_bytes)
    summary = Summary()
    for row in file.rows():
        summary.rows += 1
        if isinstance(row, Refusal):
            summary.refused.append(row)
            continue
        try:
            body = decode_send(json.dumps(row.body).encode())
            recipient_jid(body.to)
            content.read(body.message)
            if body.session_id is not None:
                checked_session_id(body.session_id)
        except OrchestratorError as error:
            summary.refused.append(Refusal(row.line, error.code, in_operators_words(error.message)))
        else:
            summary.accepted += 1
    return summary


# sending ----------------------------------------------------------------------------------------------------------
class Sender:
    """Sends rows in pieces; a piece that was cut off is sent again with the same keys."""

    def __init__(self, api: Api, file: CsvFile, progress: Progress) -> None:
        self._api = api
        self._file = file
        self._progress = progress
        self._summary = Summary()

    def run(self) -> Summary:
        rows = self._file.rows()
        with self._progress:
            while piece := list(islice(rows, _ROWS_PER_REQUEST)):
                self._summary.rows += len(piece)
                self._summary.refused += [row for row in piece if isinstance(row, Refusal)]
                self._settle([row for row in piece if isinstance(row, Row)])
        self._summary.refused.sort(key=lambda refusal: refusal.line)
        return self._summary

    def _settle(self, waiting: list[Row]) -> None:
        """Until every row is accepted, known or refused for good; gives up when nothing moves any more."""
        tries = 0
        while waiting:
            before = len(waiting)
            waiting, error = self._send(waiting)
            self._progress.show(self._summary.settled)
            if not waiting:
                return
            tries = 1 if len(waiting) < before else tries + 1
            if tries >= _TRIES or (error.code == "SERVER_UNREACHABLE" and not self._summary.settled):
                raise self._given_up(waiting[0].line, error)
            time.sleep(_pause_s(tries, error))

    def _send(self, rows: list[Row]) -> tuple[list[Row], CliError]:
        """The rows that are not settled, and why."""
        lines = b"".join(json.dumps(row.body).encode() + b"\n" for row in rows)
        open_rows = dict(enumerate(rows))
        error = CliError("SERVER_CUT", f"The server at {self._api.url} hung up before it had answered.")
        try:
            for result in self._api.lines("/api/v1/send/bulk", Content("application/x-ndjson", lines)):
                error = self._note(result, open_rows) or error
        except CliError as stopped:
            if stopped.code not in _PASSING:
                raise
            error = stopped
        return list(open_rows.values()), error

    def _note(self, result: dict[str, Any], open_rows: dict[int, Row]) -> CliError | None:
        """Takes a settled row out; the reason when it has to be tried again."""
        told = result.get("error") or {}
        problem = CliError.told_by_server(told)
        if "index" not in result:  # the whole piece ended
            raise problem
        if told and problem.code in _PASSING:
            return problem
        row = open_rows.pop(int(result["index"]))
        if told:
            self._summary.refused.append(Refusal(row.line, problem.code, problem.message))
        elif result.get("replayed"):
            self._summary.known += 1
        else:
            self._summary.accepted += 1
        return None

    def _given_up(self, line: int, error: CliError) -> CliError:
        if not self._summary.settled:
            return error
        return CliError(
            error.code,
            f"Stopped before line {line}: {error.message} {self._summary.accepted} accepted, {self._summary.known} "
            "known already. Run the same command again: nothing is sent twice.",
            details={"line": line, "accepted": self._summary.accepted, "known": self._summary.known},
        )


def _pause_s(tries: int, error: CliError) -> float:
    wanted = error.details.get("retryAfterMs", 0) / 1000 if isinstance(error.details, dict) else 0
    return float(min(_LONGEST_PAUSE_S, max(wanted, _FIRST_PAUSE_S * 2 ** (tries - 1))))


# telling ----------------------------------------------------------------------------------------------------------
class Progress(Protocol):
    def __enter__(self) -> object: ...
    def __exit__(self, *error: object) -> object: ...
    def show(self, settled: int) -> None: ...


class _Lines:
    """For a log or a pipe: a line now and then."""

    def __init__(self, total: int, out: TextIO | None) -> None:
        self._total = total
        self._out = out
        self._next = max(1, total // 10)

    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

    def show(self, settled: int) -> None:
        if self._out and settled >= self._next:
            self._next = settled + max(1, self._total // 10)
            print(f"{settled} of {self._total}", file=self._out, flush=True)


class _Bar:
    """For a terminal."""

    def __init__(self, total: int) -> None:
        from rich.console import Console  # noqa: PLC0415 - only where there is a terminal
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
        from rich.progress import Progress as RichProgress  # noqa: PLC0415

        self._bar = RichProgress(
            TextColumn("sending"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            console=Console(stderr=True),
        )  # fmt: skip
        self._task = self._bar.add_task("sending", total=total)

    def __enter__(self) -> None:
        self._bar.start()

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show(self, settled: int) -> None:
        self._bar.update(self._task, completed=settled)


def progress_for(file: CsvFile, *, quiet: bool) -> Progress:
    if sys.stderr.isatty():
        return _Bar(len(file))
    return _Lines(len(file), None if quiet else sys.stderr)


def _tell(options: Options, summary: Summary, *, dry_run: bool) -> None:
    if options.as_json:
        numbers = {"rows": summary.rows, "accepted": summary.accepted, "known": summary.known}
        refused = [{"line": r.line, "code": r.code, "message": r.message} for r in summary.refused]
        print_json({**numbers, "refused": refused, "dryRun": dry_run})
        return
    if dry_run:
        typer.echo(f"{summary.accepted} would be sent, {len(summary.refused)} refused. Nothing was sent.")
    else:
        typer.echo(f"{summary.accepted} accepted, {summary.known} known already, {len(summary.refused)} refused.")
    for refusal in summary.refused[:_SHOWN_REFUSALS]:
        typer.echo(f"line {refusal.line}: {plain(refusal.message)} ({refusal.code})", err=True)
    if len(summary.refused) > _SHOWN_REFUSALS:
        typer.echo(f"… and {len(summary.refused) - _SHOWN_REFUSALS} more; --json lists all.", err=True)
