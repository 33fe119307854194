"""Bar charts as small SVG files: what people would rather look at than read."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

_WIDTH, _BAR, _GAP, _LABEL, _VALUE = 760, 22, 10, 300, 90
_NUMBER = re.compile(r"-?[\d,]+(?:\.\d+)?")


def value_of(cell: str) -> float | None:
    """The number in a cell of a table."""
    found = _NUMBER.search(cell)
    return float(found.group().replace(",", "")) if found else None


def bars(title: str, unit: str, values: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars, the longest as wide as there is room; readable on light and dark pages."""
    room = _WIDTH - _LABEL - _VALUE - 20
    largest = max((value for _, value in values), default=0) or 1
    height = 50 + len(values) * (_BAR + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{html.escape(title)}" font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="10" y="22" font-weight="600" fill="#1b1f24">{html.escape(_short(title, 88))}</text>',
    ]
    for index, (label, value) in enumerate(values):
        top = 40 + index * (_BAR + _GAP)
        width = max(1.0, room * value / largest)
        colour = "#9aa4b2" if "baseline" in label or "plain" in label else "#1f9d6b"
        name, shown = html.escape(_short(label, 42)), f"{_shown(value)} {html.escape(unit)}"
        lines += [
            f'<text x="{_LABEL}" y="{top + 15}" text-anchor="end" fill="#1b1f24">{name}</text>',
            f'<rect x="{_LABEL + 10}" y="{top}" width="{width:.1f}" height="{_BAR}" rx="3" fill="{colour}"/>',
            f'<text x="{_LABEL + 16 + width:.1f}" y="{top + 15}" fill="#1b1f24">{shown}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:g}"
