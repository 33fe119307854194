"""People who may sign in to the dashboard, how often somebody tried, and which sign-ins were ended."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection

# An office behind one address mistypes less often than that; a guesser gets nowhere.
_TRIES_PER_ADDRESS = 10
_TRIES_EVERYWHERE = 200
_PAIRINGS_PER_SESSION = 6
_WINDOW_S = 15 * 60


@dataclass(frozen=True, kw_only=True)
class User:
    name: str
    password_hash: str
    generation: str  # new with every password: older sign-ins end
    created_at: int


class UserStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def put(self, user: User) -> bool:
        """True when it is new; a known one gets the new password."""
        kept = {"hash": user.password_hash, "generation": user.generation, "createdAt": user.created_at}
        return bool(await self._connection.call("HSET", keys.USERS(), user.name, msgspec.json.encode(kept).decode()))

    async def get(self, name: str) -> User | None:
        text = await self._connection.call("HGET", keys.USERS(), name)
        return _user(name, text) if text else None

    async def all(self) -> list[User]:
        found: dict[str, str] = await self._connection.call("HGETALL", keys.USERS())
        return sorted((_user(name, text) for name, text in found.items()), key=lambda user: user.name)

    async def remove(self, name: str) -> bool:
        return bool(await self._connection.call("HDEL", keys.USERS(), name))

    # signing in ------------------------------------------------------------------------------------------------
    async def count_try(self, address: str) -> int:
        """0: go on. Else the seconds until this address may try again."""
        return await self._count(f"from-{address}", _TRIES_PER_ADDRESS, "all", _TRIES_EVERYWHERE)

    async def count_pairing(self, session_id: str) -> int:
        """The same for pairing codes asked for by link: WhatsApp itself counts them too."""
        return await self._count(f"pair-{session_id}", _PAIRINGS_PER_SESSION, "pair-all", _TRIES_EVERYWHERE)

    async def _count(self, who: str, most: int, everybody: str, most_everywhere: int) -> int:
        answer = await scripts.run(
            self._connection,
            "sign_in_try",
            {"now": self._clock.now_ms(), "who": who, "most": most, "everybody": everybody,
             "mostEverywhere": most_everywhere, "windowS": _WINDOW_S},
        )  # fmt: skip
        return int(answer["waitS"])

    async def forget_tries(self, address: str) -> None:
        """It was the right password after all."""
        await self._connection.call("DEL", keys.SIGN_IN_TRIES(f"from-{address}"))

    async def end_sign_in(self, ticket_id: str, *, keep_ms: int) -> None:
        await self._connection.call("SET", keys.SIGN_IN_ENDED(ticket_id), "1", "PX", max(1, keep_ms))

    async def sign_in_ended(self, ticket_id: str) -> bool:
        return bool(await self._connection.call("EXISTS", keys.SIGN_IN_ENDED(ticket_id)))


def _user(name: str, text: str) -> User:
    kept = msgspec.json.decode(text)
    return User(name=name, password_hash=kept["hash"], generation=kept["generation"], created_at=int(kept["createdAt"]))
