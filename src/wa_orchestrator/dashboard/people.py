"""Who sits in front of the browser: signing in and out, and the cookie in between."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
from dataclasses import dataclass
from functools import cache
from http.cookies import CookieError, SimpleCookie

import structlog

from wa_orchestrator.clock import Clock
from wa_orchestrator.dashboard import passwords
from wa_orchestrator.dashboard.tokens import Signer
from wa_orchestrator.errors import CsrfFailed, TooManySignIns, Unauthorized
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.users import User

log = structlog.get_logger()

COOKIE = "wa_sign_in"
CSRF_HEADER = "x-csrf-token"
BY_KEY = ""  # the name of whoever signed in with the API key
_HOUR_MS = 3_600_000
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class Person:
    """Somebody who signed in. `name` is empty for the API key."""

    name: str
    ticket_id: str
    csrf: str
    ends_at: int

    @property
    def by(self) -> str:
        """As the audit trail names them."""
        return audit_name(self.name)


def audit_name(name: str) -> str:
    return f"user:{name}" if name else "dashboard"


class People:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        # its own key for each purpose: a scan link can never be used as a cookie
        self._tickets = Signer(settings.webhook_secret, "sign-in")
        self._csrf = Signer(settings.webhook_secret, "csrf")
        self._key_generation = Signer(settings.api_key, "generation").word("api-key")[:16]

    async def sign_in(self, *, name: str, password: str, address: str) -> str:
        """The cookie's value; raises Unauthorized, or TooManySignIns before the password is even looked at."""
        if wait_s := await self._store.users.count_try(_network(address)):
            raise TooManySignIns(retry_after_s=wait_s)
        user = await self._store.users.get(name) if name else None
        generation = await self._by_password(user, password) if name else self._by_key(password)
        if not generation:
            # an unknown name is not logged: people write passwords into the wrong field
            log.warning("sign_in_refused", user=user.name if user else "", address=address)
            raise Unauthorized("The name, the password or the API key is wrong.")
        await self._store.users.forget_tries(_network(address))
        log.info("signed_in", user=name, address=address)
        ticket = {"id": secrets.token_hex(16), "name": name, "generation": generation}
        return self._tickets.seal(ticket, ends_at=self._clock.now_ms() + self._settings.sign_in_hours * _HOUR_MS)

    def _by_key(self, key: str) -> str:
        given, own = key.encode("utf-8", "replace"), self._settings.api_key.encode()
        return self._key_generation if own and hmac.compare_digest(given, own) else ""

    async def _by_password(self, user: User | None, password: str) -> str:
        # an unknown name takes as long as a wrong password: names cannot be found out
        kept = user.password_hash if user else _nobody()
        good = await asyncio.to_thread(passwords.matches, password, kept)
        return user.generation if user and good else ""

    async def who(self, headers: dict[str, str]) -> Person | None:
        """Whose cookie this is; None: nobody's, ended, or made before the password was changed."""
        ticket = self._tickets.open(read_cookie(headers, COOKIE), now_ms=self._clock.now_ms())
        if ticket is None:
            return None
        name, ticket_id = str(ticket["name"]), str(ticket["id"])
        ended, generation = await asyncio.gather(self._store.users.sign_in_ended(ticket_id), self._generation_of(name))
        if ended or not generation or generation != ticket["generation"]:
            return None
        return Person(name, ticket_id, self._csrf.word(ticket_id), int(ticket["endsAt"]))

    async def _generation_of(self, name: str) -> str:
        if name == BY_KEY:
            return self._key_generation
        user = await self._store.users.get(name)
        return user.generation if user else ""

    async def caller(self, headers: dict[str, str], method: str) -> Person | None:
        """The same for a call that may change something: then the page's own token must come along."""
        person = await self.who(headers)
        if person and method not in _SAFE:
            self.check_csrf(person, headers.get(CSRF_HEADER, ""))
        return person

    def check_csrf(self, person: Person, given: str) -> None:
        if not hmac.compare_digest(given.encode("utf-8", "replace"), person.csrf.encode()):
            raise CsrfFailed

    async def sign_out(self, person: Person) -> None:
        await self._store.users.end_sign_in(person.ticket_id, keep_ms=person.ends_at - self._clock.now_ms())


def read_cookie(headers: dict[str, str], name: str) -> str:
    text = headers.get("cookie", "")
    if name not in text:
        return ""
    try:
        found = SimpleCookie(text).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


@cache
def _nobody() -> str:
    return passwords.hashed(secrets.token_hex(16))


def _network(address: str) -> str:
    """An IPv6 guesser has a whole /64 to come from: it counts as one address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((ip, 64), strict=False).network_address)
    return str(ip)
