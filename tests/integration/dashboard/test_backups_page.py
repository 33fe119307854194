"""The page with backups in every state an operation or a file can be in."""

from __future__ import annotations

import pytest

from support.backups import backed_up, ended
from support.control_plane import ControlPlane
from support.visitor import Visitor


@pytest.mark.parametrize("language", ["en", "he"])
async def test_every_state_is_shown(visitor: Visitor, plane: ControlPlane, language: str) -> None:
    async def page() -> str:
        answer = await visitor.call("GET", "/backups", headers={"Accept-Language": language})
        part = await visitor.call("GET", "/parts/backups", headers={"Accept-Language": language})
        assert (answer.status, part.status) == (200, 200), answer.body[-300:]
        return answer.body.decode()

    made = await backed_up(plane)
    assert f'data-restore="{made}"' in await page()

    await plane.good("POST", f"/api/v1/backups/restore/{made}", status=202)
    await ended(plane)
    assert made in await page()

    (plane.server.settings.backups_path / "cut.zip").write_bytes(b"PK\x03\x04")
    assert (await plane.call("POST", "/api/v1/backups/restore/cut")).code == "BACKUP_DAMAGED"
    assert 'data-tone="bad"' in await page()

    for operation in (
        {"state": "running", "phase": "copying", "done": "1", "total": "3", "current": "worker_1"},
        {"state": "done", "result": '{"backupId":"x","withoutSlot":["worker_1"],"sessions":["worker_1"]}'},
        {"state": "done", "kind": "backup", "result": '{"backupId":"x","skippedSessions":["worker_1"]}'},
    ):
        fields = {"aliveUntil": str(10**14), **operation}
        await plane.store.connection.call("HSET", "backups:operation", *(x for pair in fields.items() for x in pair))
        assert "worker_1" in await page()
