"""WAHA's sending calls over HTTP. Each becomes a message of ours: queued, paced, sent exactly once."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.gateway.content import message_id_of, wa_id_of
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.model.caller import Caller
from wa_orchestrator.rooms import GatewayRooms
from wa_orchestrator.waha import bodies, messages
from wa_orchestrator.waha.names import MessageRef, read_message_id

IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description="Ours; WAHA has none")]


class Sending:
    """Queues a message and answers as WAHA does."""

    def __init__(self, rooms: GatewayRooms) -> None:
        self._store = rooms.store
        self._gateway = rooms.gateway
        self._clock = rooms.clock

    async def send(
        self, body: bodies.Sent, content: messages.Content, caller: Caller, key: str | None
    ) -> dict[str, Any]:
        reply_to = await self.named(body.reply_to) if body.reply_to else None
        return await self.queue(body.session, body.chatId, content, caller, key, reply_to=reply_to)

    async def queue(
        self,
        session_id: str,
        chat: str,
        content: messages.Content,
        caller: Caller,
        key: str | None,
        *,
        reply_to: MessageRef | None = None,
    ) -> dict[str, Any]:
        caller.check_session(session_id)
        body = messages.send_body(session_id, chat, content, reply_to=reply_to)
        accepted = await self._gateway.accept(body, caller=caller, idempotency_key=key)
        session = await self._store.sessions.get(session_id)
        return messages.queued_message(
            accepted.body, chat=chat, me=session.phone if session else "", at_ms=self._clock.now_ms(), content=content
        )

    async def named(self, text: str) -> MessageRef:
        """The message a caller means. Named by its id alone it may be one of ours: those we know."""
        found = read_message_id(text)
        if found.chat:
            return found
        ours = text if text.startswith("msg_") else message_id_of(text)
        record = await self._store.messages.get(ours)
        if record is None:
            return found
        return MessageRef(wa_message_id=wa_id_of(ours), mine=True, chat=record["to"])


def waha_send_router(rooms: GatewayRooms) -> Routes:
    router = Routes(tags=["waha"])
    sending = Sending(rooms)

    @router.post("/sendText", status_code=201, summary="WAHA: send a text")
    async def send_text(body: bodies.Text, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.text_content(body), caller, key)

    @router.post("/sendImage", status_code=201, summary="WAHA: send a picture")
    async def send_image(body: bodies.Media, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.media_content("image", body), caller, key)

    @router.post("/sendFile", status_code=201, summary="WAHA: send a file")
    async def send_file(body: bodies.Media, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.media_content("document", body), caller, key)

    @router.post("/sendVoice", status_code=201, summary="WAHA: send a voice note")
    async def send_voice(body: bodies.Media, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.media_content("voice", body), caller, key)

    @router.post("/sendVideo", status_code=201, summary="WAHA: send a video")
    async def send_video(body: bodies.Media, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.media_content("video", body), caller, key)

    @router.post("/sendLocation", status_code=201, summary="WAHA: send a place")
    async def send_location(body: bodies.Location, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.location_content(body), caller, key)

    @router.post("/sendContactVcard", status_code=201, summary="WAHA: send contacts")
    async def send_contacts(body: bodies.Contacts, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.contacts_content(body), caller, key)

    @router.post("/sendPoll", status_code=201, summary="WAHA: send a poll")
    async def send_poll(body: bodies.Poll, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        return await sending.send(body, messages.poll_content(body), caller, key)

    @router.put("/reaction", summary="WAHA: react to a message")
    async def react(body: bodies.Reaction, caller: CallerHere, key: IdempotencyKey = None) -> dict[str, Any]:
        target = await sending.named(body.messageId)
        if not target.chat:
            raise InvalidBody(
                "messageId: write the whole id with its chat, for example false_972501234567@c.us_3EB0….",
                details={"field": "messageId"},
            )
        content = messages.reaction_content(body.reaction, target)
        return await sending.queue(body.session, target.chat, content, caller, key)

    @router.post("/startTyping", status_code=201, summary="WAHA: accepted; the worker shows typing by itself")
    @router.post(
        "/stopTyping", status_code=201, summary="WAHA: accepted; see startTyping", operation_id="waha_stop_typing"
    )
    async def typing(body: bodies.Chat, caller: CallerHere) -> bodies.Done:
        """The worker shows "typing…" before each message: while one waits in the queue it would come too early."""
        caller.check_session(body.session)
        return bodies.Done(note="The worker shows typing by itself before each message.")

    return router
