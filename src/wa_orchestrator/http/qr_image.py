"""QR codes as pictures. Drawing one takes milliseconds of CPU, so each code is drawn once."""

from __future__ import annotations

import base64
import io
from functools import lru_cache

import segno


@lru_cache(maxsize=256)
def qr_png(text: str) -> bytes:
    out = io.BytesIO()
    segno.make(text, error="m").save(out, kind="png", scale=6, border=4)
    return out.getvalue()


@lru_cache(maxsize=256)
def qr_svg(text: str) -> bytes:
    out = io.BytesIO()
    segno.make(text, error="m").save(out, kind="svg", scale=6, border=4)
    return out.getvalue()


def qr_data_url(text: str) -> str:
    return "data:image/png;base64," + base64.b64encode(qr_png(text)).decode()
