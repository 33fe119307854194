"""A handler is read at its first call, once for all its addresses; the document shows one of them."""

from __future__ import annotations

from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, Request
from fastapi.params import Depends as DependsParam
from pydantic import BaseModel

from wa_orchestrator.http.late_routes import Api, Handler, Routes


class Thing(BaseModel):
    name: str


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of handlers as the framework reads them."""
    found: list[str] = []
    original = Handler.read

    def noting(self: Handler, **more: Any) -> Any:
        found.append(self.path)
        return original(self, **more)

    monkeypatch.setattr(Handler, "read", noting)
    return found


@pytest.fixture
def guarded() -> list[str]:
    """Addresses as the guard is told them."""
    return []


@pytest.fixture
def api(guarded: list[str]) -> Api:
    async def guard(request: Request) -> None:
        guarded.append(request.scope["route"].path)

    routes = Routes(tags=["things"])

    @routes.get("/things/{number}", summary="One thing")
    async def look(number: int, big: bool = False) -> Thing:
        return Thing(name=f"{number} {big}")

    @routes.post("/things", status_code=201)
    async def make(thing: Thing, who: Annotated[str, Depends(lambda: "somebody")]) -> dict[str, str]:
        return {"name": thing.name, "by": who}

    @routes.delete("/things", include_in_schema=False)
    async def clear() -> None:
        return None

    made = Api(title="T", version="1", description="D", answers={404: {"model": Thing}})
    depends: DependsParam = Depends(guard)
    made.place(routes, "/api/v1", "/api", guards=[depends])
    made.describe({"/plain": {"get": {"summary": "In front"}}})
    return made


@pytest.fixture
def caller(api: Api) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://test")


async def test_nothing_is_read_before_the_first_call_and_a_handler_only_once(
    caller: httpx.AsyncClient, read: list[str]
) -> None:
    assert read == []
    for path in ("/api/v1/things/1", "/api/things/1", "/api/v1/things/2?big=true"):
        assert (await caller.get(path)).status_code == 200
    assert read == ["/things/{number}"]


async def test_all_addresses_answer_alike_and_tell_the_guard_their_own(
    caller: httpx.AsyncClient, guarded: list[str]
) -> None:
    for prefix in ("/api/v1", "/api"):
        assert (await caller.get(f"{prefix}/things/7")).json() == {"name": "7 False"}
        made = await caller.post(f"{prefix}/things", json={"name": "x"})
        assert (made.status_code, made.json()) == (201, {"name": "x", "by": "somebody"})
        assert (await caller.get(f"{prefix}/things/seven")).status_code == 422
    assert guarded == [
        *("/api/v1/things/{number}", "/api/v1/things", "/api/v1/things/{number}"),
        *("/api/things/{number}", "/api/things", "/api/things/{number}"),
    ]


async def test_a_wrong_method_or_address_is_told_without_reading_anything(
    caller: httpx.AsyncClient, read: list[str]
) -> None:
    for method in ("HEAD", "PUT"):
        refused = await caller.request(method, "/api/things/1")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET")
    assert (await caller.get("/api/v2/things/1")).status_code == 404
    assert read == []


def test_the_document_shows_the_first_address_and_what_stands_in_front(api: Api) -> None:
    document = api.openapi()
    assert set(document["paths"]) == {"/api/v1/things/{number}", "/api/v1/things", "/plain"}
    assert set(document["paths"]["/api/v1/things"]) == {"post"}
    one = document["paths"]["/api/v1/things/{number}"]["get"]
    assert (one["tags"], one["summary"], set(one["responses"])) == (["things"], "One thing", {"200", "404", "422"})
    assert [parameter["name"] for parameter in one["parameters"]] == ["number", "big"]
