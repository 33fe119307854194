"""What can go wrong, as exceptions.

ClientError
├── ConnectionFailed     the server could not be reached, or the connection broke
├── SignatureInvalid     a webhook is not from our server, or too old
├── EventsLost           events between two numbers are not kept any more
└── ApiError             the server answered with an error: status, code, message, details, request_id
    ├── Unauthorized 401   ├── Forbidden 403      ├── NotFound 404        ├── Conflict 409, 410
    ├── Invalid 400, 413, 422                     ├── RateLimited 429     └── Unavailable 502, 503, 504
"""

from __future__ import annotations

from typing import Any


class ClientError(Exception):
    """Everything this package raises by itself."""


class ConnectionFailed(ClientError):
    """The server could not be reached, or the connection broke before the answer came."""


class SignatureInvalid(ClientError):
    """This did not come from our server, was changed on its way, or is too old."""


class EventsLost(ClientError):
    """Events after `after` are no longer kept; the next one that is has the number `next_number`."""

    def __init__(self, after: int, next_number: int) -> None:
        super().__init__(f"events after {after} are not kept any more; the next is {next_number}")
        self.after = after
        self.next_number = next_number


class ApiError(ClientError):
    """The server's answer. `code` is stable; the sentence is for people."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        request_id: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.details = details or {}
        self.request_id = request_id
        self.retry_after_s = retry_after_s


class Unauthorized(ApiError):
    """The key is missing or wrong."""


class Forbidden(ApiError):
    """The key may not do this."""


class NotFound(ApiError):
    """There is no such session, message, …"""


class Conflict(ApiError):
    """It does not fit the present state."""


class Invalid(ApiError):
    """The request is wrong; `details` names the field."""


class RateLimited(ApiError):
    """Too many requests, or the day's limit; `retry_after_s` says how long to wait."""


class Unavailable(ApiError):
    """A part of the server is away. Nothing was changed."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid, 401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 410: Conflict, 413: Invalid,
    422: Invalid, 429: RateLimited, 502: Unavailable, 503: Unavailable, 504: Unavailable,
}  # fmt: skip


def api_error(status: int, body: object, *, retry_after_s: float | None = None) -> ApiError:
    """The error that an answer tells of, whatever its body looks like (a proxy in between may have written it)."""
    told = body.get("error") if isinstance(body, dict) else None
    error: dict[str, Any] = told if isinstance(told, dict) else {}
    details = error.get("details")
    return _BY_STATUS.get(status, ApiError)(
        status,
        str(error.get("code") or "UNKNOWN"),
        str(error.get("message") or "The server gave no reason."),
        details=details if isinstance(details, dict) else None,
        request_id=str(error.get("requestId") or ""),
        retry_after_s=retry_after_s,
    )
