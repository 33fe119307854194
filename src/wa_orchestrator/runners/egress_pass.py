"""What a worker shows at the egress relay: a user name that says who it is, and a password that proves it. Pure."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass


@dataclass(frozen=True)
class Pass:
    """Leads one session to one proxy and nowhere else."""

    session_id: str
    proxy_id: str

    @property
    def user(self) -> str:
        return f"{self.session_id}.{self.proxy_id}"  # neither has a dot

    def password(self, secret: str) -> str:
        # the colon keeps it apart from session secrets, which are made of a bare session id
        return hmac.new(secret.encode(), f"egress:{self.user}".encode(), hashlib.sha256).hexdigest()


def relayed_proxy_url(relay: str, *, secret: str, session_id: str, proxy_id: str) -> str:
    """What takes the place of the proxy's own address in a worker: it never learns the proxy's password."""
    shown = Pass(session_id, proxy_id)
    return f"socks5h://{shown.user}:{shown.password(secret)}@{relay}"


def checked_pass(secret: str, *, user: str, password: str) -> Pass | None:
    """Who it is; None for a forgery."""
    session_id, dot, proxy_id = user.partition(".")
    if not dot:
        return None
    claimed = Pass(session_id, proxy_id)
    return claimed if hmac.compare_digest(claimed.password(secret).encode(), password.encode()) else None
