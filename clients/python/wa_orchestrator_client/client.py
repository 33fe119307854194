"""The client for programs that wait for each answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import httpx

from wa_orchestrator_client import calls, models
from wa_orchestrator_client.calls import Call
from wa_orchestrator_client.errors import ClientError, ConnectionFailed
from wa_orchestrator_client.events import Journey
from wa_orchestrator_client.models import Json
from wa_orchestrator_client.retrying import RetryPolicy
from wa_orchestrator_client.transport import headers_of, read_answer, request_of

T = TypeVar("T")
_LOOK_AGAIN_S = 0.5


class Client:
    """`with Client("http://localhost:3001", api_key) as wa: wa.send("972501234567", "Hello")`."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        timeout_s: float = 30.0,
        retry: RetryPolicy | None = None,
        http: httpx.Client | None = None,
    ) -> None:
        self._retry = retry or RetryPolicy()
        self._http = http or httpx.Client(timeout=timeout_s)
        self._http.base_url = httpx.URL(base_url)
        self._http.headers.update(headers_of(api_key))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def do(self, call: Call[T]) -> T:
        """Carries out one call, again where that is safe."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return read_answer(call, self._http.request(**request_of(call)))
            except (httpx.TransportError, ClientError) as error:
                wait_s = self._retry.wait_s(attempt, error, repeatable=call.repeatable)
                if wait_s is None:
                    if isinstance(error, ClientError):
                        raise
                    raise ConnectionFailed(f"{type(error).__name__}: {error}") from error
            time.sleep(wait_s)

    # sessions --------------------------------------------------------------------------------------------------
    def provision(
        self,
        *,
        session_id: str | None = None,
        phone: str | None = None,
        proxy: str | None = None,
        label: str | None = None,
        metadata: Mapping[str, str] | None = None,
        allow_additional: bool | None = None,
        rebind: bool | None = None,
    ) -> models.Provisioned:
        """Makes a session and starts its worker."""
        return self.do(
            calls.provision(
                session_id=session_id, phone=phone, proxy=proxy, label=label, metadata=metadata,
                allow_additional=allow_additional, rebind=rebind,
            )
        )  # fmt: skip

    def sessions(self, *, status: str | None = None, search: str | None = None) -> Iterator[models.Session]:
        """All of them, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page, cursor = self.do(calls.sessions(cursor=cursor, status=status, search=search))
            yield from page

    def session(self, session_id: str) -> models.Session:
        return self.do(calls.session(session_id))

    def qr(self, session_id: str) -> models.Qr:
        """The code to scan; NotFound with code QR_NOT_READY until there is one."""
        return self.do(calls.qr(session_id))

    def qr_picture(self, session_id: str, kind: str = "png") -> bytes:
        return self.do(calls.qr_picture(session_id, kind))

    def pairing_code(self, session_id: str, phone: str) -> models.PairingCode:
        return self.do(calls.pairing_code(session_id, phone))

    def start(self, session_id: str) -> models.Session:
        return self.do(calls.order("start", session_id))

    def stop(self, session_id: str) -> models.Session:
        return self.do(calls.order("stop", session_id))

    def restart(self, session_id: str) -> models.Session:
        return self.do(calls.order("restart", session_id))

    def logout(self, session_id: str) -> models.Session:
        return self.do(calls.order("logout", session_id))

    def delete_session(self, session_id: str, *, forget: bool = False) -> models.Deleted:
        """`forget` also drops the phone's binding to its proxy."""
        return self.do(calls.delete_session(session_id, forget=forget))

    def wait_for_session(self, session_id: str, *statuses: str, timeout_s: float = 120.0) -> models.Session:
        """Until it has one of these states; TimeoutError when it takes longer."""
        deadline = time.monotonic() + timeout_s
        while (found := self.session(session_id)).status not in statuses:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{session_id} is {found.status}, not {' or '.join(statuses)}")
            time.sleep(_LOOK_AGAIN_S)
        return found

    # messages --------------------------------------------------------------------------------------------------
    def send(
        self, to: str, message: str | Json, *, session_id: str | None = None, idempotency_key: str | None = None,
        **more: Any,
    ) -> models.Queued:  # fmt: skip
        """Queues a message. It gets an idempotency key of its own, so a broken connection never sends it twice; give
        your own (an order number) to be safe across restarts of your program too. `more`: from_phone, priority,
        schedule_at, expires_at, defer, reference."""
        return self.do(calls.send(to, message, session_id=session_id, idempotency_key=idempotency_key, **more))

    def send_bulk(self, items: Iterable[Mapping[str, Any]], *, spread_minutes: int | None = None) -> models.BulkResult:
        """Many at once, each `{to, message, …}` with its own result."""
        return self.do(calls.send_bulk(items, spread_minutes=spread_minutes))

    def message(self, message_id: str) -> models.Message:
        """With its whole story in `raw`."""
        return self.do(calls.message(message_id))

    def messages(
        self, *, status: str | None = None, session_id: str | None = None, to: str | None = None,
        reference: str | None = None,
    ) -> Iterator[models.Message]:  # fmt: skip
        """Newest first, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page, cursor = self.do(
                calls.messages(cursor=cursor, status=status, session_id=session_id, to=to, reference=reference)
            )
            yield from page

    def cancel(self, message_id: str) -> models.MessageState:
        return self.do(calls.cancel(message_id))

    def redrive(self, message_id: str) -> models.MessageState:
        return self.do(calls.redrive(message_id))

    def upload(self, content: bytes) -> models.Upload:
        """A file to send: `{"image": {"mediaId": upload.media_id}}`."""
        return self.do(calls.upload(content))

    def wait_for_message(self, message_id: str, *statuses: str, timeout_s: float = 120.0) -> models.Message:
        """Until it has one of these states, or ended otherwise; TimeoutError when it takes longer."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = self.message(message_id)
            if found.status in statuses or found.status in {"failed", "expired", "cancelled"}:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{message_id} is {found.status}, not {' or '.join(statuses)}")
            time.sleep(_LOOK_AGAIN_S)

    # events ----------------------------------------------------------------------------------------------------
    def events(
        self, *, after: int | None = None, session_id: str | None = None, types: Iterable[str] = ()
    ) -> Iterator[models.Event]:
        """Everything that happens, for ever, in order. Keep the `number` of the last one you handled and begin `after`
        it next time: nothing is missed. EventsLost says that too much time went by. Without `after`: from now on."""
        journey = Journey(after=after, session_id=session_id, types=tuple(types))
        while True:
            yield from journey.took(self.do(journey.next_call()))

    # webhooks --------------------------------------------------------------------------------------------------
    def create_webhook(
        self,
        url: str,
        *,
        types: Iterable[str] = (),
        sessions: Iterable[str] = (),
        secret: str | None = None,
        label: str | None = None,
    ) -> models.Webhook:
        """Events are posted to `url` from now on; check them with `verify_webhook` and the secret of this answer."""
        return self.do(
            calls.create_webhook(url, types=list(types), sessions=list(sessions), secret=secret, label=label)
        )

    def webhooks(self) -> list[models.Webhook]:
        return self.do(calls.webhooks())

    def delete_webhook(self, webhook_id: str) -> bool:
        return self.do(calls.delete_webhook(webhook_id))
