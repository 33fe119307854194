"""What people write, over HTTP: conversations, their messages, the files that came with them."""

from __future__ import annotations

import mimetypes
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import FileResponse

from wa_orchestrator.errors import InboundMediaNotFound, MediaLost, MediaPending, SessionNotFound
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.inbound.conversations import Conversations
from wa_orchestrator.rooms import Rooms

# Shown as what they are; anything else could be a page or a script and is given as plain bytes.
_SAFE_TYPES = frozenset(
    {
        "image/jpeg", "image/png", "image/gif", "image/webp",
        "video/mp4", "video/3gpp", "video/webm", "video/quicktime",
        "audio/ogg", "audio/mpeg", "audio/mp4", "audio/aac", "audio/amr", "audio/wav", "audio/webm",
        "application/pdf",
    }
)  # fmt: skip
_BYTES = "application/octet-stream"
_HEADERS = {"Content-Security-Policy": "default-src 'none'; sandbox"}
_FILE = {200: {"description": "The file", "content": {_BYTES: {"schema": {"type": "string", "format": "binary"}}}}}


def inbound_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["inbox"])
    inbox = Conversations(rooms.store, kept=rooms.settings.inbox_keep_days > 0)

    @router.get("/sessions/{session_id}/conversations", summary="Conversations of a session, newest first")
    async def conversations(
        session_id: str,
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
        cursor: Annotated[str, Query(max_length=60)] = "",
    ) -> dict[str, Any]:
        """The newest 500 chats, each with its last message; `nextCursor` goes on from where the page ended."""
        return await inbox.page(session_id, cursor=cursor, limit=limit)

    @router.get("/sessions/{session_id}/conversations/{chat}/messages", summary="What was said, newest first")
    async def messages(
        session_id: str,
        chat: str,
        before: Annotated[str, Query(max_length=128)] = "",
        limit: Annotated[int, Query(ge=1, le=100)] = 50,
    ) -> dict[str, Any]:
        """Received and sent messages of one chat: a phone number, …@lid or …@g.us. The newest 100 are kept.
        `before` is the `id` of a message: the page goes on with what is older."""
        return await inbox.messages(session_id, chat, before=before, limit=limit)

    @router.post("/sessions/{session_id}/conversations/{chat}/read", summary="Mark a conversation as read")
    async def read(session_id: str, chat: str) -> dict[str, Any]:
        """Nothing is unread any more, and the worker tells WhatsApp (groups excepted)."""
        return await inbox.mark_read(session_id, chat)

    @router.get(
        "/sessions/{session_id}/media/{media_id}",
        summary="A received file",
        response_class=FileResponse,
        responses=_FILE,  # type: ignore[arg-type] # FastAPI wants wider keys than it reads
    )
    async def media(session_id: str, media_id: str) -> FileResponse:
        """By the `mediaId` of MESSAGE_RECEIVED; there once MEDIA_READY was told. Always as an attachment."""
        if await rooms.store.sessions.get(session_id) is None:
            raise SessionNotFound
        record = await rooms.store.conversations.media(session_id, media_id)
        if record is None:
            raise InboundMediaNotFound
        if record.get("state") == "pending":
            raise MediaPending
        file = rooms.inbound_files.find(session_id, media_id)
        if file is None or record.get("state") != "ready":
            reason = record.get("reason")
            raise MediaLost(details={"reason": reason} if reason else None)
        kind = _safe_type(record.get("mimetype", ""))
        name = record.get("fileName") or media_id + (mimetypes.guess_extension(kind) or "")
        return FileResponse(file, media_type=kind, filename=_file_name(name), headers=_HEADERS)

    return router


def _safe_type(mimetype: str) -> str:
    plain = mimetype.partition(";")[0].strip().lower()
    return plain if plain in _SAFE_TYPES else _BYTES


def _file_name(name: str) -> str:
    """The sender chose it: no folders, nothing that is no letter to be seen."""
    last = name.replace("\\", "/").rsplit("/", maxsplit=1)[-1]
    return "".join(letter for letter in last if letter.isprintable()).strip(" .") or "file"
