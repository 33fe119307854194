"""How results look: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import typer

_WIDTH_WHEN_PIPED = 200  # nothing is cut off when the output goes to a file or another program


def print_json(data: object) -> None:
    typer.echo(json.dumps(data, ensure_ascii=False, indent=2))


def print_json_line(data: object) -> None:
    """For output that goes on: one object per line."""
    typer.echo(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich import box  # noqa: PLC0415 - not needed for --json
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(plain(cell) for cell in row))
    width = None if sys.stdout.isatty() else _WIDTH_WHEN_PIPED
    # labels are free text: no markup, no emoji names
    Console(width=width, markup=False, emoji=False, highlight=False).print(table)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Name and value, one below the other; empty values are left out."""
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        typer.echo(f"{name:<{width}}  {plain(value)}")


def plain(text: str) -> str:
    """Text without control characters: a label must not be able to command the terminal."""
    return "".join(c if c.isprintable() else "�" for c in text)


def place(proxy: Any) -> str:
    """host:port of a proxy object of the API."""
    return f"{proxy['host']}:{proxy['port']}" if proxy else ""


def ago(iso: str | None, *, now: datetime | None = None) -> str:
    """An ISO time as people say it: 12 s ago, 3 h ago."""
    if not iso:
        return ""
    try:
        then = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    seconds = max(0, int(((now or datetime.now(UTC)) - then).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
