"""WAHA's calls about an account over HTTP: linking it, and what only its worker can answer."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Response

from wa_orchestrator.errors import (
    AlreadyConnected,
    Conflict,
    ConversationNotFound,
    InboxOff,
    QrNotReady,
    SessionNotRunning,
)
from wa_orchestrator.gateway.recipient import recipient_jid
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.qr_image import qr_png
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.http.session_orders import ask_for_pairing_code
from wa_orchestrator.http.sessions import SessionLook
from wa_orchestrator.inbound.conversations import Conversations
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.model.session import Status, Wanted
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.envelope import environment
from wa_orchestrator.waha.names import chat_id, read_message_id

_COMMAND_TIMEOUT_S = 25.0
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {}, "application/json": {}}, "description": "The code"}
}


async def ask(rooms: Rooms, look: SessionLook, session_id: str, command: str, args: dict[str, Any]) -> dict[str, Any]:
    """What a connected worker answers; raises when it cannot."""
    session = await look.known(session_id)
    if session.status is not Status.CONNECTED:
        raise Conflict(f"The session is not connected (it is {session.status.value}). Try again once it is.")
    command_id = await rooms.store.commands.send(session_id, command, args)
    answer = await rooms.store.commands.answer(command_id, timeout_s=_COMMAND_TIMEOUT_S)
    if not answer.get("ok"):
        raise Conflict("WhatsApp did not answer this. Try again in a moment.")
    result: dict[str, Any] = answer.get("result") or {}
    return result


def waha_account_routes(rooms: Rooms) -> Routes:
    """Our own API has no such addresses: served under /api as well."""
    router = Routes(tags=["waha"])
    look = SessionLook(rooms)

    @router.get("/{session_id}/auth/qr", response_model=None, responses=_PICTURE, summary="WAHA: the code to scan")
    async def qr(
        session_id: str,
        format: Literal["image", "raw"] = "image",  # noqa: A002
        accept: Annotated[str, Header()] = "",
    ) -> Response | dict[str, str]:
        """A PNG; as JSON `{mimetype, data}` where `Accept` asks for JSON; `format=raw`: `{value}`."""
        session = await look.known(session_id)
        if session.status is Status.CONNECTED:
            raise AlreadyConnected
        code = await rooms.store.sessions.qr(session_id)
        if code is None:
            raise SessionNotRunning if session.wanted is not Wanted.RUNNING else QrNotReady
        if format == "raw":
            return {"value": code["qr"]}
        picture = qr_png(code["qr"])
        if "application/json" in accept:
            return {"mimetype": "image/png", "data": base64.b64encode(picture).decode()}
        return Response(picture, media_type="image/png")

    @router.post("/{session_id}/auth/request-code", status_code=201, summary="WAHA: link with a code")
    async def request_code(session_id: str, body: bodies.RequestCode) -> bodies.CodeAnswer:
        given = await ask_for_pairing_code(rooms, await look.known(session_id), body.phoneNumber)
        return bodies.CodeAnswer(code=given.code)

    @router.get("/contacts/check-exists", summary="WAHA: is this number on WhatsApp?")
    async def check_exists(
        caller: CallerHere,
        phone: Annotated[str, Query(max_length=40)] = "",
        session: Annotated[str, Query(max_length=64)] = "default",
    ) -> bodies.NumberAnswer:
        caller.check_session(session)  # also where it was not named
        number = checked_phone(phone.split("@", maxsplit=1)[0])
        answer = await ask(rooms, look, session, "check_numbers", {"phones": [number]})
        found = next((one for one in answer.get("numbers", []) if one.get("exists") is True), None)
        there = chat_id(str(found.get("jid") or number)) if found else None
        return bodies.NumberAnswer(numberExists=found is not None, chatId=there, pn=there)

    inbox = Conversations(rooms.store, kept=rooms.settings.inbox_keep_days > 0)

    async def _all_seen(body: bodies.Seen) -> bodies.Done:
        """Without ids: whatever of this chat is unread."""
        try:
            await inbox.mark_read(body.session, body.chatId)
        except (ConversationNotFound, InboxOff) as error:
            return bodies.Done(success=False, note=f"Nothing was marked as read. {error.message}")
        return bodies.Done()

    @router.post("/sendSeen", status_code=201, summary="WAHA: mark messages as read")
    async def send_seen(body: bodies.Seen, caller: CallerHere) -> bodies.Done:
        caller.check_session(body.session)
        named = [*(body.messageIds or []), *([body.messageId] if body.messageId else [])]
        if not named:
            return await _all_seen(body)
        refs = [read_message_id(text) for text in named]
        participant = body.participant or next((ref.participant for ref in refs if ref.participant), None)
        args: dict[str, Any] = {"chat": recipient_jid(body.chatId), "waMessageIds": [ref.wa_message_id for ref in refs]}
        if participant:
            args["participant"] = recipient_jid(participant)
        await ask(rooms, look, body.session, "mark_read", args)
        return bodies.Done()

    @router.get("/version", summary="WAHA: what runs here")
    async def version() -> dict[str, Any]:
        return environment()

    return router
