"""Files that were named on the command line; what cannot be read is one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from wa_orchestrator.cli.errors import CliError


@contextmanager
def readable(place: str | Path) -> Iterator[None]:
    """Around whatever reads the file."""
    try:
        yield
    except OSError as error:
        raise CliError("NOT_READABLE", f"{place} cannot be read: {error.strerror}.") from None


def text_of(place: str, *, hint: str = "") -> str:
    """A text file, or standard input for `-`; `hint` says how to make one that is UTF-8."""
    with readable(place):
        raw = typer.get_binary_stream("stdin").read() if place == "-" else Path(place).read_bytes()
    try:
        return raw.decode("utf-8-sig")  # spreadsheets begin with a mark
    except UnicodeError:
        raise CliError("NOT_TEXT", f"{place} is not UTF-8 text.{hint}") from None
