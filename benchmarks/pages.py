"""The benchmark report as a page: `benchmarks/REPORT.md` with a plot for each table, made from the kept figures."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.plots import bars, value_of
from wa_orchestrator.store.valkey_server import find_binary

PAGE = Path(__file__).parent / "REPORT.md"
PLOTS = Path(__file__).parent / "plots"
_ROOT = Path(__file__).resolve().parent.parent

_INTRO = """# Benchmark report

Made by `make bench`; do not edit by hand. What the parts measure, how to read them and what was changed because of
them: [docs/reference/benchmarks.md](../docs/reference/benchmarks.md). Absolute figures belong to this machine at that
moment. Each part has a baseline of the same run; the ratio to it is what counts. A load average well above zero means
that other programs were running: p99 figures are then upper bounds.
"""


def machine() -> dict[str, str]:
    return {
        "CPU": f"{os.cpu_count()} × {_cpu()}",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "Python": platform.python_version(),
        "Node": _first_line("node", "--version"),
        "store": _first_line(*_store_binary(), "--version"),
        "Baileys": _baileys(),
    }


def _cpu() -> str:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1).strip() if found else platform.machine()


def _store_binary() -> list[str]:
    return [str(find_binary())]


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except OSError:
        return "not found"
    return done.stdout.splitlines()[0][:80] if done.stdout else "unknown"


def _baileys() -> str:
    text = (_ROOT / "worker" / "package.json").read_text(encoding="utf-8")
    found = re.search(r'"baileys":\s*"([^"]+)"', text)
    return found.group(1) if found else "unknown"


def write_page(parts: dict[str, Any]) -> Path:
    PLOTS.mkdir(exist_ok=True)
    lines = [_INTRO, "| machine | |", "|---|---|", *(f"| {name} | {value} |" for name, value in machine().items()), ""]
    aims = [(part, aim) for part, found in parts.items() for aim in found["aims"]]
    if aims:
        lines += ["## Aims", "", f"{sum(a['met'] for _, a in aims)} of {len(aims)} reached.", "",
                  "| part | what | measured | aim | |", "|---|---|---|---|---|"]  # fmt: skip
        lines += [_aim(part, aim) for part, aim in aims]
    for part, found in parts.items():
        lines += ["", f"## {part}", "", f"{found['at']}, load average before: {found.get('loadBefore', 0):.1f}"]
        for number, table in enumerate(found.get("tables", ())):
            lines += ["", f"**{table['title']}**", "", *_table(table)]
            if table["plot"] and (svg := _plot(table)):
                name = f"{part}-{number + 1}.svg"
                (PLOTS / name).write_text(svg, encoding="utf-8")
                lines += ["", f"![{table['plot']}](plots/{name})"]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return PAGE


def _aim(part: str, aim: dict[str, Any]) -> str:
    sign = "≥" if aim["at_least"] else "≤"
    verdict = "reached" if aim["met"] else "**missed**"
    measured, limit = f"{aim['value']:,.2f}{aim['unit']}", f"{sign} {aim['limit']:g}{aim['unit']}"
    return f"| {part} | {aim['what']} | {measured} | {limit} | {verdict} |"


def _table(table: dict[str, Any]) -> list[str]:
    columns = table["columns"]
    ruler = ["---" if number == 0 else "---:" for number in range(len(columns))]
    return [f"| {' | '.join(row)} |" for row in (columns, ruler, *table["rows"])]


def _plot(table: dict[str, Any]) -> str:
    column = table["columns"].index(table["plot"])
    values = [(row[0], value_of(row[column])) for row in table["rows"]]
    return bars(table["title"], table["plot"], [(label, value) for label, value in values if value is not None])
