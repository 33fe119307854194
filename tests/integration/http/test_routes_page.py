"""The page of routes names every route that the server documents, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from support.control_plane import ControlPlane

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "http-api.md").read_text(encoding="utf-8")
_ROUTE = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE)[^`]* (/[\w./{}-]+)`")
_OTHER_PAGES = ("/waha/", "/api/worker/", "/api/webhook")  # WAHA and the worker protocol have pages of their own
_NOT_IN_THE_DOCUMENT = {"/docs", "/openapi.json", "/metrics"}


def shape(path: str) -> str:
    """As both spell it: with or without `v1`, whatever the id is called."""
    return re.sub(r"\{\w+\}", "{}", path.replace("/api/v1/", "/api/"))


async def test_every_route_is_on_the_page_and_every_route_of_the_page_exists(plane: ControlPlane) -> None:
    document = await plane.good("GET", "/openapi.json")
    served = {shape(path) for path in document["paths"] if not path.startswith(_OTHER_PAGES)}
    told = {shape(path) for path in _ROUTE.findall(PAGE) if not path.startswith(_OTHER_PAGES)}
    assert served - told == set(), "docs/reference/http-api.md does not name these"
    assert told - served - _NOT_IN_THE_DOCUMENT == set(), "docs/reference/http-api.md names routes that are not there"
