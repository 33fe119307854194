"""With several orchestrators the leader does the work, whoever took the order."""

from __future__ import annotations

from pathlib import Path

import redis

from support.backups import ended, linked, wait_status
from support.control_plane import TINY_WORKER, control_plane
from support.servers import StoreServer


async def test_an_order_given_elsewhere_is_done_by_the_leader(valkey: StoreServer, tmp_path: Path) -> None:
    with redis.Redis(port=valkey.port) as client:
        client.flushall()
    shared = {"REDIS_URL": valkey.url, "WORKER_COMMAND": TINY_WORKER, "BACKUP_AT": "off"} | {
        name: str(tmp_path / name.lower()) for name in ("SESSIONS_DIR", "RUN_DIR", "BACKUPS_DIR")
    }
    async with (
        control_plane(tmp_path / "one", **shared) as leader,
        control_plane(tmp_path / "two", **shared) as other,
    ):
        assert (leader.server.leads, other.server.leads) == (True, False)
        await leader.add_proxies(1)
        session_id = await linked(leader, "972500000001")
        await other.good("POST", "/api/v1/backups/create", status=202)
        done = await ended(other)
        assert (done["state"], done["result"]["sessions"]) == ("done", 1)
        backup_id = done["result"]["backupId"]
        await wait_status(leader, session_id, "connected")

        # a refusal of the leader's checks is the answer here, with its own code
        (tmp_path / "backups_dir" / "cut.zip").write_bytes(b"PK\x03\x04 and no more")
        refused = await other.call("POST", "/api/v1/backups/restore/cut")
        assert (refused.status, refused.code) == (422, "BACKUP_DAMAGED")
        # a passphrase would have to go through the store
        refused = await other.call("POST", f"/api/v1/backups/restore/{backup_id}", {"passphrase": "x"})
        assert (refused.status, refused.code) == (422, "BACKUP_NEEDS_PASSPHRASE")

        await other.good("DELETE", f"/api/sessions/{session_id}")
        await other.good("POST", f"/api/v1/backups/restore/{backup_id}", status=202)
        assert (await ended(other))["state"] == "done"
        await wait_status(other, session_id, "connected")
        assert await leader.pid(session_id) is not None
        assert await other.pid(session_id) is None
