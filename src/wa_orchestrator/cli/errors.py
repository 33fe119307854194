"""What ends a command before it is done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wa_orchestrator.cli.wording import in_operators_words


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

    @classmethod
    def told_by_server(cls, error: Mapping[str, Any], *, otherwise: str = "It failed.") -> CliError:
        """An error object of the API, in the words of the command line."""
        return cls(
            str(error.get("code", "UNKNOWN")),
            in_operators_words(str(error.get("message", otherwise))),
            details=error.get("details"),
            request_id=error.get("requestId"),
        )

    def as_object(self) -> dict[str, Any]:
        given = {"code": self.code, "message": self.message, "details": self.details, "requestId": self.request_id}
        return {key: value for key, value in given.items() if value is not None}
