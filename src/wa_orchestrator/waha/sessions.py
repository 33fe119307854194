"""Our session as WAHA shows it, and WAHA's wishes for a session in our words. Pure."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from wa_orchestrator.errors import Conflict, InvalidProxy
from wa_orchestrator.model.proxy import Proxy, ProxyAddress, parse_proxy
from wa_orchestrator.model.session import Session
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.envelope import ENGINE, Facts, me_of
from wa_orchestrator.waha.names import status_of

_PLAIN = "A proxy is SOCKS5 with names resolved at the proxy: write server as socks5h://host:port."


def session_answer(session: Session, proxy: Proxy | None, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": session.session_id,
        "status": status_of(session),
        "config": {
            "metadata": session.metadata,
            # never with the password
            "proxy": {"server": _server(proxy.address)} if proxy else None,
            "webhooks": webhooks,
        },
        "me": me_of(facts_of(session)),
        "engine": {"engine": ENGINE, "state": session.status.value},
        "presence": None,
        "timestamps": {"activity": session.last_ping or session.created_at},
        "assignedWorker": session.session_id,
    }


def facts_of(session: Session) -> Facts:
    """What webhooks know of a session, from its record."""
    return {"phone": session.phone, "jid": session.jid, "lid": session.lid, "name": session.push_name,
            "label": session.label, "metadata": session.metadata}  # fmt: skip


def _server(address: ProxyAddress) -> str:
    return f"socks5h://{address.host}:{address.port}"


def wanted_proxy(proxy: bodies.Proxy | None) -> tuple[str, ProxyAddress | None]:
    """(id, address) as provisioning takes it; both empty: one is chosen."""
    if proxy is None:
        return "", None
    if proxy.server.startswith("px_"):  # one of the pool, by its id
        return proxy.server, None
    scheme, mark, rest = proxy.server.partition("://")
    if not mark:
        raise InvalidProxy(_PLAIN, details={"field": "config.proxy.server"})
    sign_in = ""
    if proxy.username and "@" not in rest:
        sign_in = f"{quote(proxy.username, safe='')}:{quote(proxy.password or '', safe='')}@"
    try:
        address = parse_proxy(f"{scheme}://{sign_in}{rest}")
    except InvalidProxy as error:
        raise InvalidProxy(error.message, details={"field": "config.proxy.server"}) from None
    return address.proxy_id, address


def check_proxy_unchanged(given: bodies.Proxy | None, present: Proxy | None) -> None:
    """A phone keeps its address: only the orchestrator exchanges a failed proxy. What a GET showed may come back."""
    if given is None or (present is not None and given.server in {_server(present.address), present.proxy_id}):
        return
    proxy_id, _ = wanted_proxy(given)
    if present is None or proxy_id != present.proxy_id:
        raise Conflict("A session keeps its proxy. Drain the proxy to move its sessions, or make the session anew.")
