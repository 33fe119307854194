"""Talks to a running server over its HTTP API, and finds out where it is and with which key."""

from __future__ import annotations

import http.client
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from wa_orchestrator.cli.errors import CliError
from wa_orchestrator.cli.files import readable
from wa_orchestrator.cli.options import Options

_TIMEOUT_S = 60.0  # provisioning waits for the worker's start
_FILE_TIMEOUT_S = 600.0  # without a byte


@dataclass(frozen=True)
class Answer:
    status: int
    data: Any
    replayed: bool = False  # the server knew the idempotency key: this is the answer of back then


@dataclass(frozen=True)
class Content:
    """A body that is not our usual JSON object."""

    type: str
    data: bytes | BinaryIO = field(repr=False)


@dataclass(frozen=True)
class Api:
    """One server. Every call opens its own connection, so several threads may call at once."""

    url: str
    key: str = field(repr=False)
    found_in: str  # where the address comes from, for the sentence when nobody answers there

    def get(self, path: str, **query: object) -> Any:
        return self.call("GET", path, query=query).data

    def post(self, path: str, body: Mapping[str, object] | None = None) -> Any:
        return self.call("POST", path, body=body).data

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        text: str | None = None,
        content: Content | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> Answer:
        """One request; whatever goes wrong becomes a CliError."""
        if body is not None:
            content = Content("application/json", json.dumps(body).encode())
        elif text is not None:
            content = Content("text/plain; charset=utf-8", text.encode())
        with self._asked(method, _with_query(path, query or {}), content, timeout_s=timeout_s) as response:
            replayed = response.headers.get("Idempotent-Replayed") == "true"
            return self._understood(response.status, response.read(), replayed=replayed)

    def lines(self, path: str, content: Content, *, timeout_s: float = _TIMEOUT_S) -> Iterator[Any]:
        """Posts, and gives the lines of the answer as they come; an error in between comes after the lines before."""
        with self._asked("POST", path, content, timeout_s=timeout_s) as response:
            if response.status >= 400:
                self._understood(response.status, response.read())
            for line in response:
                try:
                    yield json.loads(line)
                except ValueError:
                    raise self._foreign() from None

    def upload(self, path: str, file: Path, *, timeout_s: float = _FILE_TIMEOUT_S) -> Any:
        """Posts a file as it is, of any size."""
        with readable(file):
            source = file.open("rb")
        with source, self._asked("POST", path, Content("application/octet-stream", source), timeout_s=timeout_s) as got:
            return self._understood(got.status, got.read()).data

    def download(self, path: str, file: Path, *, timeout_s: float = _FILE_TIMEOUT_S) -> int:
        """Writes what comes into a new file that only its owner may read; how many bytes. A part of it never stays."""
        try:
            target = os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        except OSError as error:
            raise CliError("NOT_WRITABLE", f"{file} cannot be made: {error.strerror}.") from None
        try:
            with target, self._asked("GET", path, None, timeout_s=timeout_s) as got:
                if got.status >= 400:
                    self._understood(got.status, got.read())
                shutil.copyfileobj(got, target, 1024 * 1024)
                announced, count = got.headers.get("Content-Length"), target.tell()
                if announced and int(announced) != count:
                    raise CliError("SERVER_CUT", f"The server at {self.url} hung up before it had answered.")
        except BaseException:
            file.unlink(missing_ok=True)
            raise
        return count

    def text_lines(self, path: str, *, timeout_s: float = _TIMEOUT_S) -> Iterator[str]:
        """The lines of an answer that is plain text, as they come."""
        with self._asked("GET", path, None, timeout_s=timeout_s) as response:
            if response.status >= 400:
                self._understood(response.status, response.read())
            for line in response:
                yield line.decode("utf-8", "replace").rstrip("\n")

    @contextmanager
    def _asked(
        self, method: str, path: str, content: Content | None, *, timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        parts = _checked_url(self.url)
        headers = {"Accept": "application/json"}
        if self.key:
            headers["X-Api-Key"] = _sendable(self.key)
        if content is not None:
            headers["Content-Type"] = content.type
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=timeout_s)
        try:
            # a server that refuses a large body hangs up before it has all of it: its answer says why
            with suppress(BrokenPipeError, ConnectionResetError):
                body = content.data if content else None
                connection.request(method, parts.path.rstrip("/") + path, body=body, headers=headers)
            yield connection.getresponse()
        except TimeoutError:
            raise CliError("SERVER_SILENT", f"The server at {self.url} did not answer in {timeout_s:g} s.") from None
        except (ConnectionResetError, http.client.IncompleteRead):
            raise CliError("SERVER_CUT", f"The server at {self.url} hung up before it had answered.") from None
        except http.client.HTTPException:
            raise self._foreign() from None
        except OSError as error:
            raise CliError(
                "SERVER_UNREACHABLE",
                f"Nothing answers at {self.url} ({self.found_in}): {error.strerror or error}. "
                "Start the server with `wa-orchestrator up`, or say where it is with --url.",
            ) from None
        finally:
            connection.close()

    def _understood(self, status: int, raw: bytes, *, replayed: bool = False) -> Answer:
        try:
            data = json.loads(raw)
        except ValueError:
            raise self._foreign() from None
        if status < 400:
            return Answer(status, data, replayed)
        error = data.get("error") if isinstance(data, dict) else None
        if not isinstance(error, dict):
            raise self._foreign()
        if status == 401:
            raise self._wrong_key(error)
        raise CliError.told_by_server(error, otherwise=f"The server answered with status {status}.")

    def _wrong_key(self, error: Mapping[str, Any]) -> CliError:
        if error.get("code") != "UNAUTHORIZED" and error.get("message"):
            return CliError.told_by_server(error)  # it was a good key once: the server says what became of it
        sentence = (
            "The server does not accept this API key. Give the right one with --api-key or API_KEY."
            if self.key
            else "No API key was found. Give it with --api-key or API_KEY, or point --data-dir to the server's folder."
        )
        return CliError("UNAUTHORIZED", sentence, request_id=error.get("requestId"))

    def _foreign(self) -> CliError:
        return CliError(
            "NOT_OUR_SERVER",
            f"What answers at {self.url} ({self.found_in}) is not WhatsApp Orchestrator. Say where it is with --url.",
        )


def api_for(options: Options) -> Api:
    url, found_in = find_url(options)
    return Api(url=url, key=find_key(options), found_in=found_in)


def find_url(options: Options) -> tuple[str, str]:
    """The server's address and where it was found: --url, ORCH_URL, what `up` wrote down, the usual port."""
    environ = options.environ()
    if options.url:
        return options.url, "from --url"
    if environ.get("ORCH_URL", "").strip():
        return environ["ORCH_URL"].strip(), "from ORCH_URL"
    file = options.data_path() / "server.json"
    written = _field_of(file, "url")
    if written:
        return written, f"from {file}"
    return f"http://127.0.0.1:{environ.get('ORCH_PORT', '').strip() or '3001'}", "the usual address"


def find_key(options: Options) -> str:
    """The API key: --api-key, API_KEY, or the one that the first start of the server has made."""
    given = options.api_key or options.environ().get("API_KEY", "")
    return given.strip() or _field_of(options.data_path() / "secrets.json", "apiKey")


def segment(text: str) -> str:
    """An id as one part of a path."""
    return quote(text, safe="")


def _field_of(file: Path, name: str) -> str:
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except PermissionError:
        raise CliError(
            "NOT_READABLE", f"{file} may not be read by this user. Run the command as the user who runs the server."
        ) from None
    except (OSError, ValueError):
        return ""
    value = kept.get(name) if isinstance(kept, dict) else None
    return value if isinstance(value, str) else ""


def _sendable(key: str) -> str:
    if key.isascii() and key.isprintable():
        return key
    raise CliError("INVALID_KEY", "The API key holds characters that no key has. Copy it again.")


def _checked_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port is None or parts.port > 0
    except ValueError:
        port_is_fine = False
    if not port_is_fine or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise CliError("INVALID_URL", "The server's address must look like http://127.0.0.1:3001.")
    return parts


def _with_query(path: str, query: Mapping[str, object]) -> str:
    given = {key: value for key, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
