"""A backup of 500 session folders and its restore, beside `cp` and `zip` on the same folders."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import random
import shutil
import struct
import subprocess
import time
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.report import Report
from benchmarks.world import World, phone, session_id, world
from wa_orchestrator.backups.room import BackupRoom
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.runners.process import ProcessRunner
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.settings import Settings, load_settings
from wa_orchestrator.store import keys

SESSIONS = 500
_PREKEYS, _HISTORY = 800, 120  # as many as Baileys uploads; records since the journal was last rewritten


async def measure(report: Report) -> None:
    async with world() as here:
        settings = load_settings({"DATA_DIR": str(here.folder / "data"), "TIMEZONE": "UTC"})
        total = await asyncio.to_thread(_write_folders, settings.sessions_path)
        await _fill_store(here)
        report.say(f"{SESSIONS} folders, {total / 1e6:.0f} MB")
        rows: list[tuple[str, float, int]] = []
        for name, work in (("cp -r (baseline)", _copied), ("zip -r (baseline)", _zipped)):
            rows.append((name, *await asyncio.to_thread(work, settings.sessions_path, here.folder)))
        for name, passphrase in (("backup", ""), ("backup, encrypted", "benchmark passphrase")):
            room = _room(here, replace(settings, backup_passphrase=passphrase))
            seconds, result = await _timed(room, here, "backup", {})
            rows.append((name, seconds, int(result["bytes"])))
            began = time.perf_counter()
            await room.verify(result["backupId"])
            rows.append((f"verify, {name}", time.perf_counter() - began, 0))
        arguments = {"backupId": result["backupId"], "sessions": [], "force": True, "mode": "backup", "proxy": ""}
        seconds, _ = await _timed(room, here, "restore", arguments)
        rows.append(("restore of the encrypted one, without the workers' starts", seconds, 0))
        _tell(report, rows, total)


def _tell(report: Report, rows: list[tuple[str, float, int]], total: int) -> None:
    by_name = {name: (seconds, size) for name, seconds, size in rows}
    zip_s, zip_bytes = by_name["zip -r (baseline)"]
    report.table(
        f"{SESSIONS} stopped sessions, {total / 1e6:.0f} MB",
        ("what", "s", "ms per session", "× zip's time", "MB", "× zip's size"),
        [
            (name, f"{seconds:.2f}", f"{1000 * seconds / SESSIONS:.1f}", f"{seconds / zip_s:.2f}",
             f"{size / 1e6:.1f}" if size else "", f"{size / zip_bytes:.2f}" if size else "")
            for name, seconds, size in rows
        ],
        plot="s",
    )  # fmt: skip
    report.figures = {name: {"s": seconds, "bytes": size} for name, seconds, size in rows}
    report.at_most("time of a backup beside zip's", by_name["backup"][0] / zip_s, 3.0, "×")
    report.at_most("size of a backup beside zip's", by_name["backup"][1] / zip_bytes, 1.1, "×")


async def _timed(room: BackupRoom, here: World, kind: str, arguments: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    operation_id = await here.store.operations.order(kind, arguments)
    began = time.perf_counter()
    await room.run_once()
    seconds = time.perf_counter() - began
    done = await here.store.operations.get()
    if done is None or done.operation_id != operation_id or done.state != "done":
        raise RuntimeError(f"the {kind} failed: {done.error if done else 'it is gone'}")
    return seconds, done.result


def _room(here: World, settings: Settings) -> BackupRoom:
    clock = SystemClock()
    runner = ProcessRunner(
        sessions_path=settings.sessions_path, run_path=settings.run_path, logs_path=here.folder / "logs",
        command=("true",), base_env={}, log_bytes=1 << 20,
    )  # fmt: skip
    lifecycle = Lifecycle(
        store=here.store, runner=runner, settings=settings, clock=clock, webhook_url="http://127.0.0.1", maker="bench"
    )
    return BackupRoom(store=here.store, lifecycle=lifecycle, settings=settings, clock=clock)


# baselines -------------------------------------------------------------------------------------------------------
def _copied(sessions: Path, scratch: Path) -> tuple[float, int]:
    target = scratch / "copy"
    return _clocked(lambda: shutil.copytree(sessions, target)), _size(target)


def _zipped(sessions: Path, scratch: Path) -> tuple[float, int]:
    target = scratch / "plain.zip"

    def by_python() -> None:
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for file in sorted(sessions.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(sessions))

    def by_zip() -> None:
        subprocess.run(["zip", "-qr", str(target), "."], cwd=sessions, check=True)

    return _clocked(by_zip if shutil.which("zip") else by_python), target.stat().st_size


def _clocked(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    os.sync()  # a backup is on the disk when it is done
    return time.perf_counter() - began


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


# folders as workers leave them -------------------------------------------------------------------------------------
def _write_folders(sessions: Path) -> int:
    for number in range(SESSIONS):
        chance, folder = random.Random(number), sessions / session_id(number)  # noqa: S311 - the same folders every time
        for name, data in (("auth", _auth(chance, phone(number))), ("outbox", _ledger(chance))):
            (folder / name).mkdir(parents=True)
            (folder / name / "journal").write_bytes(data)
    return _size(sessions)


def _key(chance: random.Random) -> dict[str, Any]:
    return {"type": "Buffer", "data": base64.b64encode(chance.randbytes(32)).decode()}


def _auth(chance: random.Random, number: str) -> bytes:
    creds = {"noiseKey": _key(chance), "signedIdentityKey": _key(chance), "account": {"details": "x" * 200},
             "me": {"id": f"{number}:1@s.whatsapp.net"}}  # fmt: skip
    first = [f"creds\t{json.dumps(creds)}"]
    first += [f"pre-key-{n}\t{json.dumps({'public': _key(chance), 'private': _key(chance)})}" for n in range(_PREKEYS)]
    frames = [_frame(1, first)]
    for n in range(_HISTORY):
        session = {"_sessions": {"chains": [_key(chance) for _ in range(12)]}}
        frames.append(_frame(n + 2, [f"session-{n % 40}.0\t{json.dumps(session)}"]))
    return b"".join(frames)


def _ledger(chance: random.Random) -> bytes:
    return b"".join(_frame(n + 1, [f"sent-3EB0{chance.randbytes(9).hex()}\t{n}"]) for n in range(200))


def _frame(sequence: int, lines: list[str]) -> bytes:
    payload = "".join(f"{line}\n" for line in lines).encode()
    head = struct.pack("<IIQ", 0x314A4157, len(payload), sequence) + hashlib.sha256(payload).digest()[:8]
    return head + hashlib.sha256(head).digest()[:8] + payload


async def _fill_store(here: World) -> None:
    """Stopped sessions, four to a proxy."""
    call = here.store.connection.call
    steps: list[Any] = []
    for number in range(SESSIONS):
        name, its_phone, proxy = session_id(number), phone(number), f"px_{number // 4:012x}"
        record = {"id": name, "phone": its_phone, "status": "stopped", "wanted": "stopped", "jid": f"{its_phone}:1",
                  "created": number + 1, "proxy": proxy, "metadata": "{}", "runOrder": 1}  # fmt: skip
        address = {"host": f"p{number // 4}.example", "port": 1080, "user": "u", "password": "p", "addedAt": 1}
        steps += [
            call("HSET", keys.SESSION(name), *(x for pair in record.items() for x in pair)),
            call("ZADD", keys.SESSIONS_ALL(), number + 1, name), call("SADD", keys.PROXY_SESSIONS(proxy), name),
            call("SADD", keys.PROXIES_ALL(), proxy), call("SET", keys.PROXY_STATUS(proxy), "active"),
            call("HSET", keys.PROXY(proxy), *(x for pair in address.items() for x in pair)),
            call("SET", keys.PHONE_PROXY(its_phone), proxy), call("SADD", keys.PHONE_SESSION(its_phone), name),
        ]  # fmt: skip
    await asyncio.gather(*steps)
