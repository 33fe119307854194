"""Orders for a session over HTTP: pairing code, start, restart, stop, logout, delete. Each may be repeated."""

from __future__ import annotations

from wa_orchestrator.errors import AlreadyConnected, Conflict, SessionNotRunning
from wa_orchestrator.http import views
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.sessions import SessionLook
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.model.session import Session, Status, Wanted, checked_session_id
from wa_orchestrator.rooms import Rooms

# a worker answers within seconds; WhatsApp itself may take some
_COMMAND_TIMEOUT_S = 25.0


def session_orders_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["sessions"])
    look = SessionLook(rooms)

    @router.post("/sessions/{session_id}/pairing-code", summary="Link with an 8-character code instead of the QR")
    async def pairing_code(session_id: str, body: views.PairingBody) -> views.PairingView:
        return await ask_for_pairing_code(rooms, await look.known(session_id), body.phone)

    @router.post("/sessions/{session_id}/start", summary="Start a stopped session")
    async def start(session_id: str) -> views.SessionView:
        await look.known(session_id)
        await rooms.lifecycle.start(session_id)
        return await look.view(await look.known(session_id))

    @router.post("/sessions/{session_id}/restart", summary="Restart a session's worker")
    async def restart(session_id: str) -> views.SessionView:
        await look.known(session_id)
        await rooms.lifecycle.restart(session_id)
        return await look.view(await look.known(session_id))

    @router.post("/sessions/{session_id}/stop", summary="Stop a session's worker; the slot stays")
    async def stop(session_id: str) -> views.SessionView:
        await look.known(session_id)
        await rooms.lifecycle.stop(session_id)
        return await look.view(await look.known(session_id))

    @router.post("/sessions/{session_id}/logout", summary="Unlink the device at WhatsApp")
    async def logout(session_id: str) -> views.SessionView:
        await log_out(rooms, await look.known(session_id))
        return await look.view(await look.known(session_id))

    @router.delete("/sessions/{session_id}", summary="Remove a session")
    async def delete(session_id: str, forget: bool = False) -> views.DeletedView:
        """Stops the worker and frees the slot; the auth folder is kept aside for a week, the phone's binding stays."""
        done = await rooms.lifecycle.delete(checked_session_id(session_id), forget=forget)
        return views.DeletedView(session_id=session_id, deleted=True, already=not done)

    return router


async def log_out(rooms: Rooms, session: Session) -> None:
    """Unlinks the device at WhatsApp; nothing to do when none is linked."""
    if not session.linked:
        return
    if session.wanted is not Wanted.RUNNING:
        raise SessionNotRunning("Start the session first: only a connected device can unlink itself.")
    command = await rooms.store.commands.send(session.session_id, "logout", {})
    answer = await rooms.store.commands.answer(command, timeout_s=_COMMAND_TIMEOUT_S)
    if not answer.get("ok"):
        raise Conflict("WhatsApp did not confirm. Wait until the session is connected, then try again.")


async def ask_for_pairing_code(rooms: Rooms, session: Session, phone: str) -> views.PairingView:
    """Asks the worker, which asks WhatsApp."""
    phone = checked_phone(phone)
    if session.status is Status.CONNECTED:
        raise AlreadyConnected
    if session.wanted is not Wanted.RUNNING:
        raise SessionNotRunning
    command = await rooms.store.commands.send(session.session_id, "pairing_code", {"phone": phone})
    answer = await rooms.store.commands.answer(command, timeout_s=_COMMAND_TIMEOUT_S)
    if not answer.get("ok"):
        raise Conflict("WhatsApp gave no code. Wait until the session shows a QR code, then try again.")
    return views.PairingView(code=str(answer["result"]["code"]), phone=phone)
