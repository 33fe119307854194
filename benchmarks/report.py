"""Tells what was measured: tables on the terminal while it runs, one JSON file at the end."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.pages import machine, write_page

RESULTS = Path(__file__).parent / "results" / "latest.json"
_console = Console(highlight=False, width=max(Console().width, 110))


@dataclass(frozen=True)
class Aim:
    what: str
    value: float
    limit: float
    at_least: bool
    unit: str

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


@dataclass
class Report:
    """What one run found. A part writes its tables, its aims and its raw figures here."""

    part: str
    figures: dict[str, Any] = field(default_factory=dict)
    aims: list[Aim] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    load_before: float = 0.0  # what else went on: above zero, latencies are not ours alone

    def say(self, text: str) -> None:
        _console.print(f"  [dim]{self.part}:[/dim] {text}")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, plot: str = "") -> None:
        """`plot` names the column that the page draws as bars."""
        kept = [[str(cell) for cell in row] for row in rows]
        self.tables.append({"title": title, "columns": list(columns), "rows": kept, "plot": plot})
        table = Table(title=title, title_justify="left", title_style="bold")
        for number, column in enumerate(columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        _console.print(table)

    def at_least(self, what: str, value: float, limit: float, unit: str = "") -> None:
        self._aim(Aim(what, value, limit, at_least=True, unit=unit))

    def at_most(self, what: str, value: float, limit: float, unit: str = "") -> None:
        self._aim(Aim(what, value, limit, at_least=False, unit=unit))

    def _aim(self, aim: Aim) -> None:
        self.aims.append(aim)
        sign = "≥" if aim.at_least else "≤"
        verdict = "[green]reached[/green]" if aim.met else "[red]missed[/red]"
        _console.print(
            f"  {verdict}  {aim.what}: {number(aim.value)}{aim.unit} (aim {sign} {number(aim.limit)}{aim.unit})"
        )


def number(value: float) -> str:
    """Three digits that matter."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def quantile(values: Sequence[float], share: float) -> float:
    """The value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def write(reports: Sequence[Report]) -> Path:
    """Parts that did not run this time keep their last figures."""
    RESULTS.parent.mkdir(exist_ok=True)
    parts: dict[str, Any] = {}
    if RESULTS.is_file():
        parts = json.loads(RESULTS.read_text(encoding="utf-8")).get("parts", {})
    for report in reports:
        parts[report.part] = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "loadBefore": report.load_before,
            "figures": report.figures,
            "aims": [{**asdict(aim), "met": aim.met} for aim in report.aims],
            "tables": report.tables,
        }
    RESULTS.write_text(json.dumps({"machine": machine(), "parts": parts}, indent=2) + "\n", encoding="utf-8")
    return write_page(parts)


def summary(reports: Sequence[Report]) -> None:
    aims = [(report.part, aim) for report in reports for aim in report.aims]
    if aims:
        met = sum(aim.met for _, aim in aims)
        _console.print(f"\n[bold]{met} of {len(aims)} aims reached[/bold]")
        for part, aim in aims:
            if not aim.met:
                _console.print(f"  missed  {part}: {aim.what}: {number(aim.value)}{aim.unit}")
