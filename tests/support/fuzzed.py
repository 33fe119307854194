"""A server under fire: called over one kept connection, each answer looked at."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis

from support.control_plane import API_KEY, signed_headers
from support.servers import StoreServer
from support.system import System

SESSION = "fuzzed"
PHONE = "972500000001"
MOST_MEMORY_MB = 400  # the server begins with about 100


@dataclass
class Fuzzed:
    """The server, its store, and what was seen so far."""

    system: System
    store: StoreServer
    _line: http.client.HTTPConnection | None = None

    def call(
        self, method: str, path: str, body: bytes | Iterator[bytes] | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and body. Anything but an honest answer within ten seconds fails."""
        given = {"X-Api-Key": API_KEY, "Content-Type": "application/json", **(headers or {})}
        if self._line is None:
            place = urlsplit(self.system.api.base)
            self._line = http.client.HTTPConnection(place.hostname or "", place.port, timeout=10)
        try:
            self._line.request(method, path, body=body, headers=given, encode_chunked=not isinstance(body, bytes))
            answer = self._line.getresponse()
            raw = answer.read()
        except TimeoutError:
            raise AssertionError(f"no answer in ten seconds: {method} {path} {str(body)[:300]}") from None
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            # a body that is too large is not read to its end; the next call must find the server alive
            self._line.close()
            self._line = None
            return 0, None
        assert answer.status < 500, (method, path, body, raw)
        if raw and "json" in (answer.headers["content-type"] or "") and "ndjson" not in answer.headers["content-type"]:
            return answer.status, json.loads(raw)
        return answer.status, raw

    def as_worker(self, path: str, body: bytes, *, session: str = SESSION) -> tuple[int, Any]:
        return self.call("POST", path, body, {**signed_headers(session, body), "X-Api-Key": ""})

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    def redis(self) -> redis.Redis:
        return redis.Redis(port=self.store.port, decode_responses=True)

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.system.pid}/status").read_text(encoding="ascii")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024
