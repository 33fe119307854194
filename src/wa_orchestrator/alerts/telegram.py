"""Telegram's Bot API: one call, and what its answers mean.

The token is part of the address, and the library's errors quote the address: none of them leaves this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import aiohttp
import msgspec

from wa_orchestrator.settings import Settings

LONGEST_MESSAGE = 4096
_TIMEOUT = aiohttp.ClientTimeout(total=8, connect=4)  # a server that ends waits 10 s for its loops
_LONGEST_ANSWER = 64 * 1024
_LONGEST_WAIT_S = 3600

# token: Telegram does not know the bot. chat: the bot cannot write there. message: others may be taken, not this one.
Refusal = Literal["token", "chat", "message"]
_REFUSALS: dict[int, Refusal] = {401: "token", 403: "chat", 404: "token"}
_ABOUT_THE_CHAT = ("chat not found", "chat_id", "peer", "kicked", "upgraded")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`away`: not reached, or broken there; `wait_s`: as Telegram asks; `refused`: trying again alone does not help."""

    ok: bool = False
    away: bool = False
    wait_s: float = 0.0
    refused: Refusal | None = None


class Telegram:
    def __init__(self, settings: Settings) -> None:
        self._token = settings.telegram_bot_token
        self._chat = settings.telegram_chat_id
        self._base = settings.telegram_api_url.rstrip("/")
        self._moved_to = ""  # a group that became a supergroup has a new id

    @property
    def configured(self) -> bool:
        return bool(self._token and self._chat)

    async def send(self, html: str, plain: str) -> Outcome:
        """With bold titles; if Telegram cannot read that, the plain words."""
        outcome = await self._send({"text": html, "parse_mode": "HTML"})
        if outcome.refused == "message":
            outcome = await self._send({"text": plain})
        return outcome

    async def check(self) -> Outcome:
        """Does the bot exist, and may it write to the chat? Nothing is written."""
        return await self._call("getChat", {"chat_id": self._chat})

    async def _send(self, body: dict[str, Any]) -> Outcome:
        common = {"disable_web_page_preview": True, **body}
        chat = self._moved_to or self._chat
        outcome = await self._call("sendMessage", {"chat_id": chat, **common})
        if outcome.refused == "chat" and self._moved_to not in {"", chat}:
            outcome = await self._call("sendMessage", {"chat_id": self._moved_to, **common})
        return outcome

    async def _call(self, method: str, body: dict[str, Any]) -> Outcome:
        url = f"{self._base}/bot{quote(self._token, safe=':')}/{method}"
        try:
            async with (
                aiohttp.ClientSession(timeout=_TIMEOUT) as http,
                http.post(url, json=body, allow_redirects=False) as answer,
            ):
                status, raw = answer.status, await answer.content.read(_LONGEST_ANSWER)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return Outcome(away=True)
        return self._understood(status, _decoded(raw))

    def _understood(self, status: int, answer: dict[str, Any]) -> Outcome:
        if status == 200 and answer.get("ok") is True:
            return Outcome(ok=True)
        more = answer.get("parameters")
        more = more if isinstance(more, dict) else {}
        if isinstance(more.get("migrate_to_chat_id"), int):
            self._moved_to = str(more["migrate_to_chat_id"])
            return Outcome(refused="chat")
        if status == 429:
            return Outcome(wait_s=_waiting_time(more.get("retry_after")))
        return Outcome(refused=_REFUSALS[status]) if status in _REFUSALS else _unless_about_the_chat(status, answer)


def _waiting_time(given: object) -> float:
    asked = float(given) if isinstance(given, int | float) and not isinstance(given, bool) else 1.0
    return min(max(asked, 0.1), _LONGEST_WAIT_S)


def _unless_about_the_chat(status: int, answer: dict[str, Any]) -> Outcome:
    if status != 400:
        return Outcome(away=True)
    said = str(answer.get("description", "")).lower()
    return Outcome(refused="chat" if any(word in said for word in _ABOUT_THE_CHAT) else "message")


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
