"""What goes in and out, as clients see it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from wa_orchestrator.clock import iso
from wa_orchestrator.model.proxy import Proxy, ProxyStatus
from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.model.trust import Trust


class View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


class Body(BaseModel):
    """What a caller sends: camelCase, unknown fields refused, no silent conversions."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)


def _iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


class ErrorDetail(BaseModel):
    code: str
    message: str
    requestId: str  # noqa: N815 - as on the wire
    details: dict[str, object] | None = None


class ErrorAnswer(BaseModel):
    error: ErrorDetail


# sessions -------------------------------------------------------------------------------------------------------
ShortText = Annotated[str, StringConstraints(max_length=200)]


class ProvisionBody(Body):
    phone: ShortText | None = Field(default=None, description="International form, digits: 972501234567")
    proxy: Annotated[str, StringConstraints(max_length=1000)] | None = Field(
        default=None, description="socks5h://user:pass@host:port, or the id of a proxy of the pool"
    )
    proxy_override: Annotated[str, StringConstraints(max_length=1000)] | None = Field(
        default=None, description="Older name of `proxy`"
    )
    session_id: Annotated[str, StringConstraints(max_length=200)] | None = None
    label: ShortText | None = None
    metadata: dict[ShortText, ShortText] | None = Field(default=None, max_length=50)
    allow_additional: bool = Field(default=False, description="The phone may already be on another session")
    rebind: bool = Field(default=False, description="Choose another proxy if the phone's own has no free slot")
    from_profile: bool = Field(default=False, description="Take phone, label and proxy from the next profile in stock")

    @model_validator(mode="after")
    def one_proxy(self) -> ProvisionBody:
        if self.proxy and self.proxy_override and self.proxy != self.proxy_override:
            raise ValueError("proxy and proxyOverride differ; send one of them")
        if self.from_profile and self.model_fields_set - {"from_profile"}:
            raise ValueError("fromProfile brings everything along; send it alone")
        return self


class PairingBody(Body):
    phone: ShortText


class ProxyRef(View):
    id: str
    host: str
    port: int


class ProvisionedView(View):
    session_id: str
    status: Status
    proxy: ProxyRef | None
    created_at: str


class DisconnectView(View):
    at: str
    reason: str
    code: int | None


class WorkerView(View):
    connection: str | None
    rss_bytes: int | None


class TrustView(View):
    level: Literal["cold", "warm", "hot"]
    since: str | None
    daily_limit: int | None


class TodayView(View):
    sent: int = Field(description="Messages released today by this phone")
    limit: int | None
    waiting: int
    under_way: int
    slowed: bool
    blocked_until: str | None
    block_reason: str | None


class SessionView(View):
    session_id: str
    status: Status
    reason: str | None
    wanted: Wanted
    phone: str | None
    jid: str | None
    lid: str | None
    label: str | None
    metadata: dict[str, str]
    proxy: ProxyRef | None
    trust: TrustView
    today: TodayView
    created_at: str
    connected_at: str | None
    last_ping: str | None
    last_disconnect: DisconnectView | None
    restarts: int
    fingerprint: str | None
    worker: WorkerView


class SessionList(View):
    sessions: list[SessionView]
    total: int
    next_cursor: str | None


class QrView(View):
    qr: str
    image: str = Field(description="PNG as a data URL")
    expires_at: str


class PairingView(View):
    code: str
    phone: str


class DeletedView(View):
    session_id: str
    deleted: bool
    already: bool = Field(description="It had been deleted before")


class EventView(View):
    number: int
    type: str
    session_id: str | None
    timestamp: str
    data: dict[str, object]


class EventList(View):
    events: list[EventView]


def proxy_ref(proxy: Proxy | None) -> ProxyRef | None:
    return ProxyRef(id=proxy.proxy_id, host=proxy.address.host, port=proxy.address.port) if proxy else None


def session_view(
    session: Session, proxy: Proxy | None, trust: Trust, since: int | None, today: TodayView
) -> SessionView:
    left = session.last_disconnect_at
    code = session.last_disconnect_code
    return SessionView(
        session_id=session.session_id,
        status=session.status,
        reason=session.reason or None,
        wanted=session.wanted,
        phone=session.phone or None,
        jid=session.jid or None,
        lid=session.lid or None,
        label=session.label or None,
        metadata=session.metadata,
        proxy=proxy_ref(proxy),
        trust=TrustView(level=trust.level, since=iso(since), daily_limit=today.limit),
        today=today,
        created_at=_iso(session.created_at),
        connected_at=iso(session.connected_at),
        last_ping=iso(session.last_ping),
        last_disconnect=DisconnectView(
            at=_iso(left), reason=session.last_disconnect_reason, code=int(code) if code.isdigit() else None
        )
        if left
        else None,
        restarts=session.restarts,
        fingerprint=session.fingerprint or None,
        worker=WorkerView(connection=session.connection or None, rss_bytes=session.worker_rss_bytes),
    )


# proxies --------------------------------------------------------------------------------------------------------
class ProxyBody(Body):
    proxy: Annotated[str, StringConstraints(max_length=1000)] = Field(description="socks5h://user:pass@host:port")


class ProxyErrorView(View):
    kind: str | None
    text: str


class ProxyView(View):
    id: str
    host: str
    port: int
    status: ProxyStatus
    slots_used: int
    slots_total: int
    sessions: list[str]
    bound_phones: int
    draining: bool
    latency_ms: int | None
    exit_ip: str | None
    last_error: ProxyErrorView | None
    added_at: str
    checked_at: str | None
    bad_at: str | None


class ProxyList(View):
    proxies: list[ProxyView]
    total: int


class CheckView(View):
    ok: bool
    kind: str | None
    text: str
    latency_ms: int | None


class CheckedProxyView(ProxyView):
    check: CheckView


class RemovedProxyView(View):
    id: str
    removed: bool
    moving: int = Field(description="Sessions that still wait for another proxy")


class LineErrorView(View):
    line: int
    message: str


class ImportView(View):
    added: int
    known: int
    errors: list[LineErrorView]
    proxies: list[str]


def proxy_view(proxy: Proxy, *, slots: int) -> ProxyView:
    return ProxyView(
        id=proxy.proxy_id,
        host=proxy.address.host,
        port=proxy.address.port,
        status=proxy.status,
        slots_used=len(proxy.sessions),
        slots_total=slots,
        sessions=list(proxy.sessions),
        bound_phones=proxy.bound_phones,
        draining=proxy.draining,
        latency_ms=proxy.latency_ms,
        exit_ip=proxy.exit_ip,
        last_error=ProxyErrorView(kind=proxy.last_error_kind, text=proxy.last_error) if proxy.last_error else None,
        added_at=_iso(proxy.added_at),
        checked_at=iso(proxy.checked_at),
        bad_at=iso(proxy.bad_at),
    )
