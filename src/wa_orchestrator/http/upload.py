"""Uploads of stock as plain lines: proxies and profiles."""

from __future__ import annotations

from typing import Literal

from fastapi import Request

from wa_orchestrator.errors import BadRequest
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.views import LineErrorView, View
from wa_orchestrator.inventory.profiles import parse_profiles
from wa_orchestrator.proxies.loading import parse_lines
from wa_orchestrator.rooms import Rooms

_LINES = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}


class SkippedLineView(View):
    line: int
    reason: Literal["known", "in_use", "repeated"]


class UploadView(View):
    """`skipped` were fine but there already; `errors` could not be read."""

    status: Literal["ok"] = "ok"
    added: int
    skipped: list[SkippedLineView]
    errors: list[LineErrorView]


def upload_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["inventory"])

    @router.post("/upload/proxies", openapi_extra=_LINES, summary="Add proxies, one per line")
    async def proxies(request: Request) -> UploadView:
        """socks5h://user:pass@host:port, host:port:user:pass or user:pass@host:port; # begins a comment. Each good line
        is added, whatever the others say; sending the same again changes nothing."""
        parsed = parse_lines(await _text(request))
        added, skipped = 0, []
        for line, address in zip(parsed.lines, parsed.good, strict=True):
            if await rooms.pool.add(address):
                added += 1
            else:
                skipped.append(SkippedLineView(line=line, reason="known"))
        errors = [LineErrorView(line=e.line, message=e.message) for e in parsed.errors]
        return UploadView(added=added, skipped=skipped, errors=errors)

    @router.post("/upload/profiles", openapi_extra=_LINES, summary="Add profiles, one per line")
    async def profiles(request: Request) -> UploadView:
        """phone[,label][,proxy]; # begins a comment line. A profile is a number for a session to come: provision with
        fromProfile:true takes the next. A proxy in the line is added to the pool."""
        parsed = parse_profiles(await _text(request))
        added = 0
        skipped = [SkippedLineView(line=line, reason="repeated") for line in parsed.repeated]
        for line, profile in parsed.good:
            why = await rooms.profiles.add(profile)
            if not why:
                added += 1
            else:
                skipped.append(SkippedLineView(line=line, reason="in_use" if why == "in_use" else "known"))
        errors = [LineErrorView(line=e.line, message=e.message) for e in parsed.errors]
        return UploadView(added=added, skipped=sorted(skipped, key=lambda s: s.line), errors=errors)

    return router


async def _text(request: Request) -> str:
    try:
        return (await request.body()).decode()
    except UnicodeDecodeError:
        raise BadRequest("The body is not UTF-8 text.") from None
