"""Delivers one webhook: reads the journal from its cursor, posts in order per session, settles what came of it.

Nothing here must survive: whatever is lost with the process is read again from the cursor. What one receiver does
concerns only its own courier.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import LeaseLost, OrchestratorError, WebhookNotFound
from wa_orchestrator.events import retrying
from wa_orchestrator.events.choosing import is_wanted
from wa_orchestrator.events.dead_letters import bury_what_is_over
from wa_orchestrator.events.envelopes import FORMATS, NEEDS_SESSION, Outgoing
from wa_orchestrator.events.facts import SessionFacts
from wa_orchestrator.events.live import LiveEvents
from wa_orchestrator.events.receiver import Receiver
from wa_orchestrator.events.sender import Answer, WebhookSender
from wa_orchestrator.events.window import Lane, Window
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store import Store
from wa_orchestrator.store.journal import GAP, JournalEntry, gap_entry, restarted_entry, with_gaps

log = structlog.get_logger()

_READ = 500
_PAGES = 10  # then what was read is settled: a journal full of what is not wanted may be long
_LOAD = 50  # of a parked session at a time
_TURN = 20  # events of one session before another has its turn
_SETTLE_MS = 100  # how much may be delivered twice after a crash
_IDLE_SETTLE_MS = 30_000  # a cursor that only passed over what is not wanted
_LONGEST_WAIT_MS = 5_000
_STORE_AWAY_S = 1.0
_GRACE_S = 5.0
_AFTER_FAULT_MS = 60_000  # a fault of our own should not be repeated a thousand times a second


@dataclass(frozen=True, kw_only=True)
class Round:
    """What every courier of a process shares."""

    store: Store
    live: LiveEvents
    sender: WebhookSender
    facts: SessionFacts
    clock: Clock
    owner: str
    retry_ms: int
    at_once: int


class Courier:
    def __init__(self, webhook: Webhook, shared: Round, *, chance: Callable[[], float] = random.random) -> None:
        self.webhook = webhook
        self._shared = shared
        self._chance = chance
        self._window = Window(webhook.cursor)
        self._ready: deque[Lane] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = False
        self._following = False  # every new entry is offered; else the journal is read
        self._barrier = 0  # a gap that must be told before anything behind it
        self._receiver = Receiver(failures=webhook.failures, since=webhook.failing_since)
        self._settled_at = 0
        self._dirty = self._urgent = False
        self._parked_known = False

    # from outside -------------------------------------------------------------------------------------------------
    def offer(self, entry: JournalEntry) -> None:
        """A new entry, in order, for those who have read everything before it."""
        if not self._following or entry.number <= self._window.read_to:
            return
        facts = self._shared.facts.fresh(entry.session_id)
        can_take = self._window.has_room and not self._receiver.away
        wanted = is_wanted(self.webhook, entry, facts) if can_take else None
        if wanted is None:
            self.fall_behind(entry.number - 1)
        elif wanted:
            self._take(entry)

    def fall_behind(self, read_to: int) -> None:
        """Reads the journal from there on, when it can."""
        if self._following:
            self._following = False
            self._window.read_to = max(read_to, self._window.read_to)
            self._wake.set()

    def change(self, webhook: Webhook) -> None:
        """The operator changed it, or drives dead letters again."""
        self.webhook = webhook
        self._parked_known = False
        if not webhook.failures:
            self._receiver.begin_anew()
            for lane in self._window.lanes.values():
                lane.next_try = 0
        self._wake.set()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    # the loop -----------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        try:
            while not self._stopping:
                self._wake.clear()
                try:
                    await self._round()
                except (LeaseLost, WebhookNotFound):
                    return
                except OrchestratorError:
                    await asyncio.sleep(_STORE_AWAY_S)
                    continue
                await self._wait()
        finally:
            await self._finish()

    async def _round(self) -> None:
        if not self._parked_known:
            await self._load_parked()
        await self._read()
        self._call_due()
        if self._settle_due():
            await self._settle()
            self._call_due()

    async def _wait(self) -> None:
        now = self._now()
        due = [self._settled_at + _SETTLE_MS] if self._dirty else []
        if self._receiver.away and not self._tasks:
            due.append(self._receiver.next_try)
        elif not self._receiver.away:
            due += [lane.next_try for lane in self._window.lanes.values() if lane.next_try > now and not lane.busy]
        wait_ms = max(0, min([_LONGEST_WAIT_MS, *(at - now for at in due)]))
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _finish(self) -> None:
        """What is under way may end; then what came of it is written, if we still may."""
        self._stopping = True
        self._following = False
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        try:
            await self._settle()
        except OrchestratorError:
            return  # it is delivered again from the cursor

    def _now(self) -> int:
        return self._shared.clock.now_ms()

    # reading ------------------------------------------------------------------------------------------------------
    async def _read(self) -> None:
        window, journal = self._window, self._shared.store.journal
        if not window.runs_low:
            return  # many at a time: each question has its price
        for _ in range(_PAGES):
            if self._following or self._stopping or not self._may_read():
                return
            page = await journal.page(window.read_to, limit=min(_READ, window.room))
            if page.entries:
                for entry in with_gaps(window.read_to, page.entries):
                    if not self._may_read():
                        return
                    await self._look_at(entry)
            elif gap := page.gap_after(window.read_to):
                self._take(gap_entry(*gap, at=self._now()))
            elif page.last < window.read_to:
                if not window.idle:
                    return  # first what was read before
                self._begin_anew()
            elif self._shared.live.position <= window.read_to:
                self._following = True
        self._wake.set()  # there is more

    def _may_read(self) -> bool:
        if self._barrier and self._window.is_open(self._barrier):
            return False
        self._barrier = 0
        if self._receiver.away:
            # no more than one needs to try whether it is back
            return self._window.idle and not any(lane.parked for lane in self._window.lanes.values())
        return self._window.has_room

    async def _look_at(self, entry: JournalEntry) -> None:
        wanted = is_wanted(self.webhook, entry, None)
        if wanted is None:
            wanted = is_wanted(self.webhook, entry, await self._shared.facts.of(entry.session_id))
        if wanted:
            self._take(entry)
        else:
            self._window.pass_over(entry.number)

    def _take(self, entry: JournalEntry) -> None:
        lane = self._window.take(entry)
        if entry.type == GAP:
            self._barrier = entry.number
            log.warning("webhook_gap", webhook_id=self.webhook.webhook_id, **entry.data)
        if lane.parked:
            self._mark_dirty()
        self._call(lane)
        self._send_out()

    def _begin_anew(self) -> None:
        """The store was emptied or restored: numbers begin again, and the receiver is told."""
        known = self._window.read_to
        self._window.read_to = 0
        self._window.progress.restart = True
        self._take(restarted_entry(known, at=self._now()))

    # who is next --------------------------------------------------------------------------------------------------
    def _call(self, lane: Lane) -> None:
        """Into the line of those that may be served, if there is something to deliver and its time has come."""
        waits = lane.parked and not lane.stored and not lane.unsettled
        due = self._receiver.away or not retrying.still_waits(lane.next_try, self._now())
        if not lane.busy and due and (lane.head or waits) and not lane.called:
            lane.called = True
            self._ready.append(lane)

    def _next_called(self) -> Lane:
        lane = self._ready.popleft()
        lane.called = False
        lane.busy = True  # from here on, not from when its task first runs: never two for one lane
        return lane

    def _call_due(self) -> None:
        for lane in self._window.lanes.values():
            if lane.parked or lane.queue:
                self._call(lane)
        self._send_out()

    def _send_out(self) -> None:
        if self._receiver.rests(self._now()):
            return
        most = 1 if self._receiver.away else self._shared.at_once
        while self._ready and len(self._tasks) < most and not self._stopping:
            task = asyncio.create_task(self._serve(self._next_called()))
            self._tasks.add(task)
            task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()

    async def _serve(self, first: Lane) -> None:
        """One lane after the other, as long as there is work: tasks cost more than requests."""
        lane: Lane | None = first
        while lane is not None:
            try:
                await self._serve_lane(lane)
            except Exception:
                log.exception("webhook_courier_failed", webhook_id=self.webhook.webhook_id)
                lane.next_try = self._now() + _AFTER_FAULT_MS
            finally:
                lane.busy = False
            self._call(lane)
            lane = self._next_called() if self._may_go_on() else None

    def _may_go_on(self) -> bool:
        return bool(self._ready) and not self._stopping and not self._receiver.away

    async def _serve_lane(self, lane: Lane) -> None:
        for _ in range(_TURN):
            if lane.parked and not lane.stored and not await self._load(lane):
                return
            entry = lane.head
            if entry is None or self._stopping or not await self._deliver(lane, entry):
                return

    async def _load(self, lane: Lane) -> bool:
        """A parked session's next events, from the store; not while what was done is not written there."""
        if lane.unsettled:
            self._settle_soon()
            return False
        try:
            found = await self._shared.store.webhooks.waiting(self.webhook.webhook_id, lane.session, limit=_LOAD)
        except OrchestratorError:
            lane.next_try = self._now() + int(_STORE_AWAY_S * 1000)
            return False
        lane.stored.extend(found)
        if not found:
            # nothing waits: settling will find that and end the parking
            self._window.progress.lane(lane.session)
            lane.unsettled = True
            self._settle_soon()
        return bool(found)

    # one delivery -------------------------------------------------------------------------------------------------
    async def _deliver(self, lane: Lane, entry: JournalEntry) -> bool:
        webhook, window = self.webhook, self._window
        try:
            outgoing = await self._packed(entry)
        except OrchestratorError:
            lane.next_try = self._now() + int(_STORE_AWAY_S * 1000)
            return False
        except Exception:
            log.exception("webhook_format_failed", webhook_id=webhook.webhook_id, number=entry.number, type=entry.type)
            answer = Answer(None, f"the format {webhook.format} failed", 0)
        else:
            if outgoing is None:
                window.passed_over(lane, entry)
                self._mark_dirty()
                return True
            answer = await self._shared.sender.post(webhook.url, outgoing)
        self._note(answer, entry)
        if answer.delivered:
            window.delivered(lane, entry)
            self._succeeded()
            return True
        if answer.gone:
            window.progress.disable = "GONE"
            log.warning("webhook_gone", webhook_id=webhook.webhook_id)
            self._stopping = True
            self._settle_soon()
            return False
        self._failed(lane, answer.error)
        return False

    async def _packed(self, entry: JournalEntry) -> Outgoing | None:
        webhook = self.webhook
        asks = webhook.format in NEEDS_SESSION and entry.session_id
        # with its state a session's account changes: whoever hears of the one should see the other
        changed = entry.type == "session.status"
        session = await self._shared.facts.of(entry.session_id, anew=changed) if asks else {}
        return FORMATS[webhook.format](entry, webhook, session, self._now())

    def _note(self, answer: Answer, entry: JournalEntry) -> None:
        """What the list of webhooks shows."""
        fields, now = self._window.progress.fields, str(self._now())
        fields["lastTryAt"] = now
        fields["lastStatus"] = str(answer.status or "")
        fields["lastError"] = answer.error
        if answer.delivered:
            fields["lastDeliveredAt"] = now
            fields["lastNumber"] = str(entry.number)

    def _succeeded(self) -> None:
        receiver, window = self._receiver, self._window
        if receiver.away:
            log.info("webhook_recovered", webhook_id=self.webhook.webhook_id)
            for lane in window.lanes.values():
                lane.next_try = 0
        if receiver.failures:
            self._wake.set()
        if receiver.succeeded(self._now()):
            window.progress.tell = "recovered"
        self._mark_dirty()
        if not self._following and window.runs_low:
            self._wake.set()

    def _failed(self, lane: Lane, error: str) -> None:
        now, window, receiver = self._now(), self._window, self._receiver
        receiver.failed(now, chance=self._chance)
        if receiver.away:
            # whatever it is sent, it fails: nothing is said about this event
            window.progress.failed += 1
            if receiver.worth_telling(now):
                window.progress.tell = "failing"
                log.warning(
                    "webhook_failing", webhook_id=self.webhook.webhook_id, error=error, failures=receiver.failures
                )
        else:
            window.failed(lane, error, now_ms=now, chance=self._chance())
            # aside only while the receiver takes others: one that is away would fill the store with what waits
            if lane.failures >= retrying.PARK_AFTER and not lane.parked and receiver.last_success > lane.since:
                window.park(lane)
                self._settle_soon()
        self._give_up(lane, error, now)
        if lane.parked:
            lane.stored.clear()  # loaded again when its time has come
        self._mark_dirty()
        self._wake.set()

    def _give_up(self, failed: Lane, error: str, now: int) -> None:
        buried = bury_what_is_over(
            self._window, failed, receiver=self._receiver, error=error, now_ms=now, retry_ms=self._shared.retry_ms
        )
        if buried:
            failed.next_try = 0
            log.warning("webhook_dead_letters", webhook_id=self.webhook.webhook_id, events=buried, error=error)
            self._settle_soon()

    # settling -----------------------------------------------------------------------------------------------------
    def _mark_dirty(self) -> None:
        if not self._dirty:
            self._dirty = True
            self._wake.set()

    def _settle_soon(self) -> None:
        self._dirty = self._urgent = True
        self._wake.set()

    def _settle_due(self) -> bool:
        passed = self._now() - self._settled_at
        return self._urgent or (self._dirty and passed >= _SETTLE_MS) or passed >= _IDLE_SETTLE_MS

    async def _settle(self) -> None:
        window = self._window
        if self._following:
            # everything up to here was offered
            window.read_to = max(window.read_to, self._shared.live.position)
        self._dirty = self._urgent = False
        self._settled_at = self._now()
        window.progress.fields.update(self._receiver.fields())
        taken, cursor = window.hand_over(), window.settle_point()
        try:
            sizes = await self._shared.store.webhooks.settle(
                self.webhook.webhook_id, taken, owner=self._shared.owner, cursor=cursor
            )
        except BaseException:
            window.take_back(taken)
            self._dirty = True
            raise
        window.settled(taken, sizes)
        window.forget_idle_lanes()

    async def _load_parked(self) -> None:
        """Sessions that wait aside, by an earlier run or because dead letters were driven again."""
        for session, state in (await self._shared.store.webhooks.parked(self.webhook.webhook_id)).items():
            lane = self._window.lane(session)
            lane.next_try = state.next_try
            if not lane.parked:
                lane.failures, lane.since, lane.error = state.failures, state.since, state.error
                self._window.park(lane)
            self._settle_soon()
        self._parked_known = True
