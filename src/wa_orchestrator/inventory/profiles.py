"""Profiles: identities in stock for sessions to come, uploaded as lines `phone[,label][,proxy]`."""

from __future__ import annotations

from dataclasses import dataclass, field

from wa_orchestrator.errors import (
    InvalidPhone,
    InvalidProxy,
    NoProfileLeft,
    OrchestratorError,
    PhoneAlreadyRegistered,
    PhoneOnOtherProxy,
    ProxyBad,
    ProxyFull,
    ProxyNotFound,
    StickyProxyFull,
)
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.proxies.loading import LineError, parse_line
from wa_orchestrator.sessions.lifecycle import Lifecycle, Provisioned
from wa_orchestrator.store import Store
from wa_orchestrator.store.inventory import StoredProfile

_LONGEST_LABEL = 200


@dataclass(frozen=True, kw_only=True)
class Profile:
    phone: str
    label: str = ""
    proxy: ProxyAddress | None = None


@dataclass(frozen=True)
class ParsedProfiles:
    good: list[tuple[int, Profile]] = field(default_factory=list)
    errors: list[LineError] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)


def parse_profiles(text: str) -> ParsedProfiles:
    """All profiles of a text without comments and blank lines. What is wrong is told without repeating the line."""
    parsed = ParsedProfiles()
    seen: set[str] = set()
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            profile = parse_profile(line)
        except (InvalidPhone, InvalidProxy) as error:
            parsed.errors.append(LineError(number, error.message))
            continue
        if profile.phone in seen:
            parsed.repeated.append(number)
            continue
        seen.add(profile.phone)
        parsed.good.append((number, profile))
    return parsed


def parse_profile(line: str) -> Profile:
    """`phone`, `phone,label`, `phone,label,proxy`, `phone,proxy` with its scheme. Passwords may hold commas."""
    phone, _, rest = line.partition(",")
    label, _, proxy = rest.partition(",")
    if "://" in label:
        label, proxy = "", rest
    label = "".join(c for c in label.strip() if c.isprintable())[:_LONGEST_LABEL]
    address = parse_line(proxy) if proxy.strip() else None
    return Profile(phone=checked_phone(phone.strip().lstrip("+")), label=label, proxy=address)


class Profiles:
    """The stock, and taking from it."""

    def __init__(self, *, store: Store, lifecycle: Lifecycle) -> None:
        self._store = store
        self._lifecycle = lifecycle

    async def add(self, profile: Profile) -> str:
        """Empty when it was added, else why not: `known` (in stock already) or `in_use` (its phone has a session)."""
        return await self._store.inventory.add_profile(profile.phone, label=profile.label, address=profile.proxy)

    async def provision_next(self) -> Provisioned:
        """A session for the oldest profile that can have one.

        A profile leaves the stock when its session is there, so none is lost; of two callers with the same profile the
        second hears that the phone is taken, and takes the next.
        """
        trouble: OrchestratorError | None = None
        for profile in await self._store.inventory.profiles():
            try:
                made = await self._lifecycle.provision(
                    phone=profile.phone, proxy_id=profile.proxy_id, label=profile.label
                )
            except PhoneAlreadyRegistered as error:
                await self._forget_if_used(profile, str((error.details or {}).get("sessionId", "")))
            except (ProxyBad, ProxyFull, ProxyNotFound, StickyProxyFull, PhoneOnOtherProxy) as error:
                trouble = trouble or error  # its own proxy cannot be had now; others may go
            else:
                await self._store.inventory.remove_profile(profile.phone)
                return made
        raise trouble or NoProfileLeft()

    async def _forget_if_used(self, profile: StoredProfile, session_id: str) -> None:
        """A session that is still being made may yet fail, and then the profile is wanted again."""
        if session_id and session_id not in await self._store.sessions.unconfirmed():
            await self._store.inventory.remove_profile(profile.phone)
