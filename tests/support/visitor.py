"""Somebody who signed in to the dashboard, without a browser: calls with a cookie instead of the API key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from support.control_plane import Answer, ControlPlane


@dataclass
class Visitor:
    """Calls with a cookie instead of the API key."""

    plane: ControlPlane
    cookie: str = ""
    csrf: str = ""

    async def call(self, method: str, path: str, body: Any = None, *, csrf: str | None = None, **more: Any) -> Answer:
        headers = {"Cookie": f"wa_sign_in={self.cookie}", "X-CSRF-Token": self.csrf if csrf is None else csrf}
        return await self.plane.call(
            method, path, body, key=None, headers={**headers, **more.pop("headers", {})}, **more
        )

    async def get(self, path: str) -> str:
        answer = await self.call("GET", path)
        assert answer.status == 200, (path, answer.status, answer.body[:500])
        return answer.body.decode()


async def sign_in(plane: ControlPlane, password: str, *, name: str = "", next_: str = "", **headers: str) -> Answer:
    raw = urlencode({"name": name, "password": password}).encode()
    form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    path = f"/sign-in?next={quote(next_)}" if next_ else "/sign-in"
    return await plane.call("POST", path, raw=raw, headers=form, key=None)


def cookie_of(answer: Answer) -> str:
    return answer.headers["set-cookie"].split("wa_sign_in=")[1].split(";")[0]
