"""The stock over HTTP: counts, thresholds, profiles."""

from __future__ import annotations

from wa_orchestrator.clock import iso
from wa_orchestrator.errors import ProfileNotFound
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.views import View
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.rooms import Rooms


class InventoryView(View):
    free_slots: int
    healthy_proxies: int
    connected_sessions: int
    profiles: int
    thresholds: dict[str, int]
    low: list[str]


class ProfileView(View):
    phone: str
    label: str | None
    proxy: str | None
    added_at: str | None


class ProfileList(View):
    profiles: list[ProfileView]
    total: int


class RemovedProfileView(View):
    phone: str
    removed: bool


def inventory_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["inventory"])

    @router.get("/inventory", summary="What is in stock, and what runs low")
    async def inventory() -> InventoryView:
        """`low` names what is below its threshold; a threshold of 0 asks for nothing."""
        stock, thresholds = await rooms.inventory.stock(), rooms.inventory.thresholds
        return InventoryView(
            free_slots=stock.free_slots, healthy_proxies=stock.healthy_proxies,
            connected_sessions=stock.connected_sessions, profiles=stock.profiles, thresholds=thresholds,
            low=stock.low(thresholds),
        )  # fmt: skip

    @router.get("/profiles", summary="Profiles in stock, in the order they are taken")
    async def profiles() -> ProfileList:
        found = await rooms.store.inventory.profiles()
        return ProfileList(
            profiles=[
                ProfileView(phone=p.phone, label=p.label or None, proxy=p.proxy_id or None, added_at=iso(p.added_at))
                for p in found
            ],
            total=len(found),
        )

    @router.delete("/profiles/{phone}", summary="Take a profile out of stock")
    async def remove(phone: str) -> RemovedProfileView:
        digits = checked_phone(phone)
        if not await rooms.store.inventory.remove_profile(digits):
            raise ProfileNotFound
        return RemovedProfileView(phone=digits, removed=True)

    return router
