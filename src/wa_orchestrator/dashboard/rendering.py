"""Turns templates into answers: language, theme, assets, the headers that keep a page to itself."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup, escape

from wa_orchestrator import __version__
from wa_orchestrator.clock import iso
from wa_orchestrator.dashboard.looks import shown_phone
from wa_orchestrator.dashboard.people import Person, read_cookie
from wa_orchestrator.dashboard.words import LANGUAGES, Words, choose_language
from wa_orchestrator.http.asgi import header_map
from wa_orchestrator.settings import Settings

HERE = Path(__file__).parent
STATIC = HERE / "static"
LANGUAGE_COOKIE, THEME_COOKIE = "wa_lang", "wa_theme"
THEMES = ("auto", "light", "dark")
_POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
    "font-src 'self'", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
))  # fmt: skip


@cache
def assets_version() -> str:
    """Changes with every asset, so that browsers may keep them for ever."""
    digest = hashlib.sha256()
    for file in sorted(STATIC.rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@cache
def _templates() -> jinja2.Environment:
    """One for the process: compiling a template takes longer than filling it in."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    assets = f"/assets/{assets_version()}"
    made.globals.update(
        assets=assets,
        icon=lambda name: Markup('<svg class="icon" aria-hidden="true"><use href="{}/icons.svg#{}"/></svg>').format(
            assets, name
        ),
        version=__version__,
        languages=LANGUAGES,
        themes=THEMES,
        phone=_phone,
        ltr=_ltr,
    )
    return made


class Rendering:
    def __init__(self, *, settings: Settings) -> None:
        self._zone = ZoneInfo(settings.timezone)

    def words(self, request: Request) -> Words:
        headers = header_map(request.scope)
        return Words(choose_language(read_cookie(headers, LANGUAGE_COOKIE), headers.get("accept-language", "")))

    def text(self, request: Request, template: str, **values: Any) -> str:
        return _templates().get_template(template).render(t=self.words(request), moment=self._moment, **values)

    def page(
        self, request: Request, template: str, *, person: Person | None, status: int = 200, **values: Any
    ) -> HTMLResponse:
        words = self.words(request)
        theme = read_cookie(header_map(request.scope), THEME_COOKIE)
        body = (
            _templates()
            .get_template(template)
            .render(
                t=words,
                moment=self._moment,
                person=person,
                path=request.url.path,
                theme=theme if theme in THEMES else "auto",
                script_words=_data_block({**words.starting_with("js."), **_prefixed(words, "errors.")}),
                **values,
            )
        )
        return HTMLResponse(body, status_code=status, headers=page_headers())

    def part(self, request: Request, template: str, **values: Any) -> HTMLResponse:
        """A piece of a page, for a page that is open already."""
        return HTMLResponse(self.text(request, template, **values), headers=page_headers())

    # words for templates ---------------------------------------------------------------------------------------
    def _clock_time(self, ms: int | None) -> str:
        if not ms:
            return "–"
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone(self._zone).strftime("%d.%m. %H:%M:%S")

    def _moment(self, ms: int | None) -> str | Markup:
        """A time that the page's script keeps saying anew: 12 seconds ago."""
        if not ms:
            return "–"
        return Markup('<time datetime="{}" data-ago>{}</time>').format(iso(ms), self._clock_time(ms))


def page_headers() -> dict[str, str]:
    return {"Content-Security-Policy": _POLICY, "Vary": "Cookie, Accept-Language"}


def _prefixed(words: Words, prefix: str) -> dict[str, str]:
    return {f"{prefix}{key}": word for key, word in words.starting_with(prefix).items()}


def _data_block(content: dict[str, str]) -> Markup:
    """JSON that may stand inside a script element."""
    text = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
    return Markup(text)  # noqa: S704 - made of our own translations, with < written as an escape


def _ltr(text: object) -> Markup:
    """Addresses, ids and numbers keep their order inside Hebrew."""
    return Markup('<bdi dir="ltr">{}</bdi>').format(escape(text))


def _phone(digits: str) -> Markup | str:
    return Markup('<bdi dir="ltr" class="phone">{}</bdi>').format(shown_phone(digits)) if digits else "–"
