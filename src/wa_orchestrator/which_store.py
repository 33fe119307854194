"""Which store, and by which rules: for every program of the installation. Small commands need nothing else to start."""

from __future__ import annotations

from dataclasses import replace

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import StoreRules


def with_store_of(settings: Settings) -> Settings:
    """With the store's address: REDIS_URL, else the embedded store of the `up` that uses this data folder."""
    if settings.redis_url:
        return settings
    folder = settings.data_path("store")
    try:
        port = int((folder / "port").read_text(encoding="ascii"))
        password = (folder / "password").read_text(encoding="ascii").strip()
    except PermissionError:
        raise SettingsError(
            f"{folder} may not be read by this user. Run as the user of `up`, or set REDIS_URL."
        ) from None
    except (OSError, ValueError):
        raise SettingsError(
            f"No store is named, and {settings.data_path()} is not the data folder of an `up` with an embedded store. "
            "Set REDIS_URL, or point --data-dir to that folder."
        ) from None
    return replace(settings, redis_url=f"redis://:{password}@127.0.0.1:{port}/0")


def store_rules(settings: Settings) -> StoreRules:
    return StoreRules(
        slots_per_proxy=settings.max_sessions_per_proxy,
        sessions_per_phone=settings.max_sessions_per_phone,
        timezone=settings.timezone,
        message_keep_days=settings.message_keep_days,
        message_lease_ms=settings.message_lease_ms,
        inbox_keep_days=settings.inbox_keep_days,
        inbound_media_keep_days=settings.inbound_media_keep_days,
        message_attempts=settings.message_attempts,
        rate_per_second=settings.rate_limit_per_second,
        rate_burst=settings.rate_limit_burst,
        flood_per_minute=settings.flood_per_minute,
        webhook_dead_letters=settings.webhook_dead_letters,
        recipient_cap_per_day=settings.recipient_cap_per_day,
    )
