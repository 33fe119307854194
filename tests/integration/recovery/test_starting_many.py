"""Five hundred sessions to start at once, after an outage: a few at a time, all in the end, none twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from support.registry import add_proxies, connect, reserve
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.gateway.media import NoMediaStore
from wa_orchestrator.model.session import Status
from wa_orchestrator.runners.port import RunningWorker, WorkerExit, WorkerSpec
from wa_orchestrator.sessions.lead_loops import LeadLoops
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.sessions.reconciler import Reconciler
from wa_orchestrator.settings import Settings, load_settings
from wa_orchestrator.store import Store

_SESSIONS, _BUDGET = 500, 12


class CountingRunner:
    """Starts nothing, remembers everything."""

    outlives_server = False

    def __init__(self) -> None:
        self.running: dict[str, RunningWorker] = {}
        self.starts: Counter[str] = Counter()

    async def open(self) -> list[RunningWorker]:
        return list(self.running.values())

    async def start(self, spec: WorkerSpec) -> RunningWorker:
        self.starts[spec.session_id] += 1
        worker = RunningWorker(
            session_id=spec.session_id, run_order=spec.run_order, proxy_id=spec.proxy_id, handle="", started_at=0
        )
        self.running[spec.session_id] = worker
        return worker

    async def stop(self, session_id: str, *, timeout_s: float = 12.0) -> None:
        self.running.pop(session_id, None)

    async def poll(self, session_id: str) -> RunningWorker | None:
        return self.running.get(session_id)

    async def list_running(self) -> list[RunningWorker]:
        return list(self.running.values())

    def on_exit(self, tell: Callable[[WorkerExit], None]) -> None:
        self.tell = tell

    async def close(self, *, stop_workers: bool) -> None:
        """Nothing to end."""


def _settings(folder: Path) -> Settings:
    return load_settings({"START_BUDGET": str(_BUDGET), "SESSIONS_DIR": str(folder), "DATA_DIR": str(folder)})


def _lifecycle(store: Store, runner: CountingRunner, folder: Path) -> Lifecycle:
    return Lifecycle(store=store, runner=runner, settings=_settings(folder), clock=SystemClock(),
                     webhook_url="http://127.0.0.1:1/api/webhook", maker="m")  # fmt: skip


def _reconciler(store: Store, runner: CountingRunner, folder: Path) -> Reconciler:
    return Reconciler(store=store, runner=runner, lifecycle=_lifecycle(store, runner, folder), media=NoMediaStore(),
                      settings=_settings(folder), clock=SystemClock())  # fmt: skip


async def test_five_hundred_start_without_a_storm(valkey_store: Store, tmp_path: Path) -> None:
    store, runner = valkey_store, CountingRunner()
    reconciler = _reconciler(store, runner, tmp_path)
    await add_proxies(store, _SESSIONS // 4)
    names = [(await reserve(store)).session_id for _ in range(_SESSIONS)]
    for name in names:
        await store.sessions.confirm(name)

    connected: set[str] = set()
    for _ in range(3 * _SESSIONS // _BUDGET):
        before = set(runner.running)
        await reconciler.run_once()
        starting = set(runner.running) - connected
        assert len(starting) <= _BUDGET, "more are starting at once than the budget allows"
        # those of the look before are up by now
        for name in before - connected:
            await connect(store, name, f"97250{names.index(name):07}")
            connected.add(name)
        if len(connected) == _SESSIONS:
            break
    assert set(runner.starts) == set(names), "all are started in the end"
    assert set(runner.starts.values()) == {1}, "none is started twice"
    await reconciler.run_once()
    assert sum(runner.starts.values()) == _SESSIONS, "what runs is left alone"


async def test_a_worker_that_died_unheard_is_found_by_the_next_look(valkey_store: Store, tmp_path: Path) -> None:
    """Its end was not told (the engine's events broke off): who is gone from the list is looked at."""
    store, runner = valkey_store, CountingRunner()
    reconciler = _reconciler(store, runner, tmp_path)
    await add_proxies(store, 1)
    name = (await reserve(store)).session_id
    await store.sessions.confirm(name)
    await reconciler.run_once()
    await reconciler.run_once()
    assert runner.starts[name] == 1
    del runner.running[name]
    await reconciler.run_once()
    assert runner.starts[name] == 2


class DyingRunner(CountingRunner):
    """Its worker dies right after it was listed, when asked to."""

    dies_when_listed = ""

    async def list_running(self) -> list[RunningWorker]:
        listed = await super().list_running()
        if worker := self.running.pop(self.dies_when_listed, None):
            self.tell(WorkerExit(session_id=worker.session_id, run_order=worker.run_order, exit_code=-9))
        return listed


async def test_a_worker_that_dies_during_a_look_is_counted_as_a_crash(valkey_store: Store, tmp_path: Path) -> None:
    store, runner = valkey_store, DyingRunner()
    reconciler = _reconciler(store, runner, tmp_path)
    await add_proxies(store, 1)
    name = (await reserve(store)).session_id
    await store.sessions.confirm(name)
    await reconciler.run_once()
    await connect(store, name, "972500000001")
    runner.dies_when_listed = name
    await reconciler.run_once()
    runner.dies_when_listed = ""
    await reconciler.run_once()
    assert runner.starts[name] == 2
    session = await store.sessions.get(name)
    assert session
    assert session.restarts == 1


async def test_nobody_is_called_connected_whose_worker_ended_with_the_last_server(
    valkey_store: Store, tmp_path: Path
) -> None:
    """Told before anybody is served; the reconciler's first look would come a moment later."""
    store, runner = valkey_store, CountingRunner()
    await add_proxies(store, 1)
    gone, adopted = [(await reserve(store)).session_id for _ in range(2)]
    for number, name in enumerate((gone, adopted)):
        await store.sessions.confirm(name)
        await connect(store, name, f"97250000000{number}")
    await runner.start(_spec(adopted))
    lead = LeadLoops({}, runner=runner, lifecycle=_lifecycle(store, runner, tmp_path))
    await lead.begin()
    assert lead.adopted == 1
    statuses = {s.session_id: (s.status, s.reason) for s in await store.sessions.all()}
    assert statuses[gone] == (Status.RECONNECTING, "WORKER_DIED")
    assert statuses[adopted][0] is Status.CONNECTED


def _spec(session_id: str) -> WorkerSpec:
    return WorkerSpec(session_id=session_id, run_order=1, proxy_id="px", proxy_url="", webhook_url="",
                      webhook_secret="", enable_keep_alive=False, extra_env={})  # fmt: skip
