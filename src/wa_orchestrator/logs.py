"""Structured logs: an event name plus fields. Never message text, credentials or whole phone numbers."""

from __future__ import annotations

import logging
import re
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

# user:pass@ in any URL that slips into a text, for example in a library's own error
_CREDENTIALS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s@]+@", re.IGNORECASE)


def without_credentials(text: str) -> str:
    """The text with `user:pass@` taken out of every URL in it."""
    return _CREDENTIALS.sub(r"\g<scheme>…@", text)


def short_phone(phone: str) -> str:
    """A phone number as logs may show it: enough to recognise, not to call."""
    return f"{phone[:5]}…{phone[-2:]}" if len(phone) > 7 else "…"


def _strip_credentials(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if isinstance(value, str) and "://" in value:
            event[key] = without_credentials(value)
    return event


def configure_logs(*, level: str = "info", as_json: bool = False, stream: TextIO | None = None) -> None:
    """Sets up logging for the whole process, the libraries' own included."""
    out = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if as_json else structlog.processors.StackInfoRenderer(),
        _strip_credentials,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        # local variables in tracebacks could show secrets
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=28
        )
    )
    number = logging.getLevelName(level.upper())
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    # libraries log through the standard module: the same lines, the same cleaning
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *shared, renderer]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.WARNING))
