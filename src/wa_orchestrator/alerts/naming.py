"""How the subjects of a notice are called: labels, places, short numbers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.logs import short_phone
from wa_orchestrator.model.session import Session
from wa_orchestrator.store import Store


async def with_names(store: Store, notice: Notice) -> Notice:
    """Asked when it is told: later the session may be gone."""
    wanted = [*notice.subjects]
    if proxy := notice.facts.get("proxy"):
        wanted.append(f"proxy:{proxy}")
    lane_session = str(notice.facts.get("session", ""))
    sessions = {s.session_id: s for s in await store.sessions.many([*_ids(wanted, "session"), lane_session])}
    names: dict[str, str] = {f"session:{name}": session_name(session) for name, session in sessions.items()}
    for proxy_id in _ids(wanted, "proxy"):
        found = await store.proxies.get(proxy_id)
        if found:
            names[f"proxy:{proxy_id}"] = f"{found.address.host}:{found.address.port}"
    for phone in _ids(wanted, "lane"):
        # Telegram is somebody else's server: the number is not given away whole
        owner = sessions.get(lane_session)
        names[f"lane:{phone}"] = f"{session_name(owner)}, {short_phone(phone)}" if owner else short_phone(phone)
    kept = {subject: names[subject] for subject in wanted if subject in names}
    return msgspec.structs.replace(notice, names=kept)


def session_name(session: Session) -> str:
    return f"{session.label[:40]} ({session.session_id})" if session.label else session.session_id


def _ids(subjects: Iterable[str], kind: str) -> list[str]:
    return [subject.partition(":")[2] for subject in subjects if subject.startswith(f"{kind}:")]
