"""Structured logs: an event name plus fields. Never message text, credentials or whole phone numbers."""

from __future__ import annotations

import io
import logging
import re
import sys
from contextvars import ContextVar
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, ExcInfo, WrappedLogger

_WORD = re.compile(r"[^\s\"']+")


# set by the gate for each request; structlog's own binding costs ten times as much
request_id: ContextVar[str] = ContextVar("request_id", default="")


def without_credentials(text: str) -> str:
    """The text with `user:pass@` taken out of every URL in it, for example in a library's own error.

    Word by word and without backtracking: a worker may send a megabyte, and must not keep us busy for an hour.
    """
    return _WORD.sub(_word_without_credentials, text) if "://" in text else text


def _word_without_credentials(word: re.Match[str]) -> str:
    text = word[0]
    begin, end = text.find("://") + 3, text.rfind("@")
    return f"{text[:begin]}…{text[end:]}" if 2 < begin < end else text


def short_phone(phone: str) -> str:
    """A phone number as logs may show it: enough to recognise, not to call."""
    return f"{phone[:5]}…{phone[-2:]}" if len(phone) > 7 else "…"


def _with_request_id(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    if given := request_id.get():
        event.setdefault("request_id", given)
    return event


def _strip_credentials(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    for key, value in event.items():
        if key != "exc_info":  # rendered later, and stripped there
            event[key] = _stripped(value)
    return event


def _stripped(value: Any) -> Any:
    match value:
        case str():
            return without_credentials(value) if "://" in value else value
        case list() | tuple():
            return [_stripped(item) for item in value]
        case dict():
            return {key: _stripped(item) for key, item in value.items()}
        case BaseException():
            return without_credentials(repr(value))
    return value


def _traceback_without_credentials(out: TextIO, exc_info: ExcInfo) -> None:
    # local variables in tracebacks could show secrets, so the plain form
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    out.write(without_credentials(text.getvalue()))


def configure_logs(*, level: str = "info", as_json: bool = False, stream: TextIO | None = None) -> None:
    """Sets up logging for the whole process, the libraries' own included."""
    out = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _with_request_id,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if as_json else structlog.processors.StackInfoRenderer(),
        _strip_credentials,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if as_json
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=_traceback_without_credentials, pad_event_to=28
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
