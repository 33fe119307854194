"""What is said to whoever sends too much: which limit it was, and what to do instead."""

from __future__ import annotations

from wa_orchestrator.errors import TooLarge

UPLOAD_INSTEAD = "Upload the file first (POST /api/v1/media) and send its mediaId, or send its URL."


def too_large(path: str, limit: int) -> TooLarge:
    """For a body that is larger than the route at `path` takes; without one, the limit is no setting."""
    if not path:
        return TooLarge(f"The body is larger than {limit} bytes.", details={"limit": limit})
    route = path.removeprefix("/api/").removeprefix("v1/")
    if route == "media":
        return _over("MAX_MEDIA_BYTES", limit, "The file", "Send a smaller one, or raise the setting.")
    if route == "send/bulk":
        return TooLarge(f"The array is larger than {limit} bytes. Send a stream of lines (application/x-ndjson): "
                        "it has no such limit.", details={"limit": limit})  # fmt: skip
    # also the ways of another product to send: /waha/api/sendImage
    sends = route == "send" or route.rpartition("/")[2].startswith("send")
    advice = UPLOAD_INSTEAD if sends else "Send less at once, or raise the setting."
    return _over("MAX_BODY_BYTES", limit, "The request", advice)


def _over(setting: str, limit: int, what: str, advice: str) -> TooLarge:
    return TooLarge(f"{what} is larger than {limit} bytes ({setting}). {advice}",
                    details={"setting": setting, "limit": limit})  # fmt: skip
