"""What ends a command before it is done."""

from __future__ import annotations

from typing import Any


class CliError(Exception):
    """One sentence for people, the API's error object for programs."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        details: object = None,
        request_id: str | None = None,
        exit_code: int = 1,
    ) -> None:
        self.code = code
        self.message = message
        self.details = details
        self.request_id = request_id
        self.exit_code = exit_code
        super().__init__(message)

    def as_object(self) -> dict[str, Any]:
        given = {"code": self.code, "message": self.message, "details": self.details, "requestId": self.request_id}
        return {key: value for key, value in given.items() if value is not None}
