"""Twenty connected sessions, real workers: backed up, lost with everything else, and back without a scan.

And `kill -9` of the server in the middle of a backup and of a restore.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from support.system import PROGRAM, System, wait_for
from wa_orchestrator.backups.auth_files import read_auth
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.store import Store
from wa_orchestrator.store.messages import NewMessage

COUNT = 20
RECIPIENT = "972559000001"


def phone(number: int) -> str:
    return f"97253100{number:04}"


def sessions_of(system: System) -> dict[str, dict[str, Any]]:
    return {s["sessionId"]: s for s in system.api.get("/api/sessions?limit=100")["sessions"]}


def all_connected(system: System) -> dict[str, dict[str, Any]] | None:
    found = sessions_of(system)
    return found if [s["status"] for s in found.values()].count("connected") == COUNT else None


def operation(system: System) -> dict[str, Any]:
    found: dict[str, Any] = system.api.get("/api/v1/backups/operation")["operation"] or {"phase": "", "state": ""}
    return found


def ended(system: System) -> dict[str, Any]:
    return wait_for(
        lambda: now if (now := operation(system))["state"] in {"done", "failed"} else None,
        what="the operation to end", timeout_s=120,
    )  # fmt: skip


def cli(system: System, *words: str) -> Any:
    command = [str(PROGRAM), "--data-dir", str(system.data), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def kill_in_phase(system: System, *phases: str) -> str:
    """Kills the server as soon as it is there; the phase it was in."""
    seen = wait_for(
        lambda: now if (now := operation(system))["phase"] in {*phases, "done", "failed"} else None,
        what="/".join(phases), pause_s=0.002,
    )  # fmt: skip
    system.kill()
    return str(seen["phase"])


def what_must_survive(sessions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        i: {name: s[name] for name in ("phone", "proxy", "trust", "label", "createdAt", "jid")}
        for i, s in sessions.items()
    }


async def send_again(url: str, sent: dict[str, Any], session_id: str) -> None:
    """The same message once more, as if the store had come back from before it was sent."""
    store = Store(url, SystemClock())
    await store.messages.enqueue(
        NewMessage(
            message_id=sent["messageId"], wa_message_id=sent["waMessageId"], to=f"{RECIPIENT}@s.whatsapp.net",
            recipient=RECIPIENT, content='{"text":"once"}', session_id=session_id,
        )
    )  # fmt: skip
    await store.close()


def test_twenty_sessions_survive_kills_and_the_loss_of_everything(tmp_path: Path) -> None:
    system = System(
        tmp_path / "server", START_BUDGET=6, PROXY_TIMEOUT_MS=5000, BACKUP_AT="off", STORE_FSYNC="everysec",
        WORKER_ENV="RECONNECT_BASE_MS=200 RECONNECT_MAX_MS=1000",
    )  # fmt: skip
    system.start()
    with system:
        system.simulator.post("/phones", {"phone": RECIPIENT})
        with ThreadPoolExecutor(4) as pool:
            ids = list(pool.map(lambda n: system.connected(phone(n), label=f"shop {n}"), range(COUNT)))
        system.unpaced(ids[0])
        system.api.call("PUT", f"/api/anti-ban/sessions/{ids[1]}/limits", {"daily": 13})
        sent = system.api.post("/api/v1/send", {"to": RECIPIENT, "message": "once", "sessionId": ids[0]})
        wait_for(lambda: system.inbox(RECIPIENT), what="the message to arrive")
        at = f"/api/v1/messages/{sent['messageId']}"
        wait_for(lambda: system.api.get(at)["status"] == "delivered", what="its receipt")
        story = system.api.get(at)

        # kill -9 in the middle of a backup: nobody stays stopped, nothing half-written is listed
        system.api.post("/api/v1/backups/create")
        assert kill_in_phase(system, "copying") == "copying"
        system.start()
        wait_for(lambda: all_connected(system), what="all to be connected after the kill", timeout_s=60)
        assert system.api.get("/api/v1/backups")["total"] == 0
        assert operation(system)["error"]["code"] == "OPERATION_INTERRUPTED"
        assert [f.name for f in (system.data / "backups").iterdir()] == []

        made = cli(system, "backups", "create")["result"]
        assert (made["sessions"], made["skipped"]) == (COUNT, 0)
        before = wait_for(lambda: all_connected(system), what="all to be back after the backup", timeout_s=60)
        assert {s["restarts"] for s in before.values()} <= {0, 1}
        assert cli(system, "backups", "verify", made["backupId"])["ok"]

        # everything is lost but the backup and the world outside
        system.stop()
        for entry in system.data.iterdir():
            if entry.name not in {"backups", "simulator"}:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        system.start()
        assert sessions_of(system) == {}
        done = cli(system, "backups", "restore", made["backupId"], "--yes")
        assert sorted(done["result"]["sessions"]) == sorted(ids)
        after = wait_for(lambda: all_connected(system), what="all to be connected again", timeout_s=90)
        assert what_must_survive(after) == what_must_survive(before)
        limits = system.api.get(f"/api/anti-ban/sessions/{ids[1]}/limits")
        assert limits["override"]["daily"] == 13
        for number, session_id in enumerate(ids):
            assert not system.events(session_id, "QR_CODE"), f"{session_id} asked for a scan"
            assert len(system.simulator.get(f"/phones/{phone(number)}")["devices"]) == 1

        # the worker's ledger came along: the same message is acknowledged, not sent again
        asyncio.run(send_again(system.ready["redisUrl"], story, ids[0]))
        wait_for(lambda: system.api.get(at)["status"] in {"sent", "delivered"}, what="the repeat to be acknowledged")
        assert [(m["id"], m["copies"]) for m in system.inbox(RECIPIENT)] == [(story["waMessageId"], 1)]

        # kill -9 in the middle of a restore over live sessions: finished, or as before
        some = ids[:6]
        for phases in (("extracting",), ("swapping", "rebuilding")):
            system.api.post(f"/api/v1/backups/restore/{made['backupId']}", {"force": True, "sessions": some})
            phase = kill_in_phase(system, *phases)
            system.start()
            wait_for(lambda: all_connected(system), what=f"all connected after a kill in {phase}", timeout_s=90)
            assert not (system.data / "sessions" / ".restore").exists()
            assert what_must_survive(sessions_of(system)) == what_must_survive(before)
            assert operation(system)["state"] in {"done", "failed"}
            assert all(read_auth(system.data / "sessions" / i) for i in ids)

        backups = {e["type"] for e in _journal(system) if e["type"].startswith(("backup.", "restore."))}
        assert backups <= {"backup.created", "backup.failed", "restore.done", "restore.failed"}
        assert "restore.done" in backups


def _journal(system: System) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = system.api.get("/api/v1/events?after=0&limit=1000")["events"]
    return found


def test_a_session_moves_to_another_server_without_a_scan(tmp_path: Path) -> None:
    env: dict[str, Any] = {
        "PROXY_TIMEOUT_MS": 5000,
        "BACKUP_AT": "off",
        "WORKER_ENV": "RECONNECT_BASE_MS=200 RECONNECT_MAX_MS=1000",
    }
    source = System(tmp_path / "source", **env)
    with source:
        session_id = source.connected(phone(1), label="shop")
        trust = source.session(session_id)["trust"]
        exported = tmp_path / "moved.zip"
        cli(source, "sessions", "export", session_id, str(exported), "--yes")
        assert exported.stat().st_mode & 0o777 == 0o600
        gone = source.session(session_id)
        assert (gone["status"], gone["reason"], gone["proxy"]) == ("stopped", "MOVED", None)
        world = json.loads((source.data / "simulator" / "ready.json").read_text())
        target = System(
            tmp_path / "target", simulate=False, WA_WEBSOCKET_URL=world["websocketUrl"],
            WA_ROOT_PUBLIC_KEY=world["rootPublicKey"], WA_CA_FILE=world["caFile"],
            PROXY_CHECK_TARGET=world["websocketUrl"].split("://")[1].split("/")[0], **env,
        )  # fmt: skip
        with target:
            assert cli(target, "sessions", "import", str(exported))["sessions"] == [session_id]
            here = target.wait_status(session_id, "connected")
            assert (here["phone"], here["label"], here["trust"]) == (phone(1), "shop", trust)
            assert not target.events(session_id, "QR_CODE")
            assert target.api.get("/api/v1/backups")["total"] == 0  # the server's copy is gone
            assert source.session(session_id)["status"] == "stopped"
            assert len(source.simulator.get(f"/phones/{phone(1)}")["devices"]) == 1
