"""Refuses a store that is too old."""

from __future__ import annotations

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.store import Store

_OLDEST = 7


async def check_version(store: Store) -> str:
    """The server's version; Valkey reports the Redis version it is compatible with."""
    info = await store.connection.call("INFO", "server")
    version = str(info.get("redis_version", "0"))
    if int(version.split(".", maxsplit=1)[0]) < _OLDEST:
        raise SettingsError(f"Redis {_OLDEST} or newer (or Valkey) is needed; REDIS_URL is {version}.")
    return version
