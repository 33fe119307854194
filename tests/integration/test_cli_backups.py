"""`wa-orchestrator backups …` and `sessions export|import` against a running server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.backups import linked, wait_status, write_auth
from support.control_plane import API_KEY, ControlPlane
from support.system import PROGRAM


async def command(plane: ControlPlane, *words: str, stdin: str = "") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM), "--url", plane.url, "--api-key", API_KEY, *words, cwd=plane.data.parent,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(stdin.encode()), timeout=60)
    return process.returncode or 0, out.decode(), err.decode()


async def good(plane: ControlPlane, *words: str) -> Any:
    code, out, err = await command(plane, "--json", *words)
    assert code == 0, out + err
    return json.loads(out)


@pytest.fixture
async def session(tiny_plane: ControlPlane) -> str:
    await tiny_plane.add_proxies(1)
    return await linked(tiny_plane, "972500000001")


async def test_create_list_verify_restore_delete(tiny_plane: ControlPlane, session: str, tmp_path: Path) -> None:
    code, out, _ = await command(tiny_plane, "backups", "create")
    assert code == 0
    assert "1 sessions" in out
    ((backup),) = (await good(tiny_plane, "backups", "list"))["backups"]
    assert (await good(tiny_plane, "backups", "verify", backup["id"]))["files"] >= 2
    got = await good(tiny_plane, "backups", "download", backup["id"], str(tmp_path))
    assert Path(got["file"]).stat().st_mode & 0o777 == 0o600
    assert Path(got["file"]).stat().st_size == backup["bytes"]
    again, _, err = await command(tiny_plane, "backups", "download", backup["id"], got["file"])
    assert again == 1
    assert "cannot be made" in err

    # newer keys: told by name, and what to do
    write_auth(tiny_plane.folder(session), "972500000001", generation=9)
    code, _, err = await command(tiny_plane, "backups", "restore", backup["id"], "--yes")
    assert code == 1
    assert session in err
    assert "--force" in err
    # nobody to ask: nothing is done
    code, _, err = await command(tiny_plane, "backups", "restore", backup["id"], "--force", stdin="n\n")
    assert code == 1
    assert "Nothing was done" in err
    restored = await good(tiny_plane, "backups", "restore", backup["id"], "--force", "--yes", "--session", session)
    assert restored["result"]["sessions"] == [session]
    await wait_status(tiny_plane, session, "connected")

    assert (await good(tiny_plane, "backups", "delete", backup["id"], "--yes"))["deleted"]
    uploaded = await good(tiny_plane, "backups", "upload", got["file"])
    assert uploaded["kind"] == "file"
    code, out, _ = await command(tiny_plane, "--json", "backups", "verify", "nothing")
    assert (code, json.loads(out)["error"]["code"]) == (1, "BACKUP_NOT_FOUND")


async def test_export_and_import(tiny_plane: ControlPlane, session: str, tmp_path: Path) -> None:
    file = tmp_path / "moved.zip"
    await good(tiny_plane, "sessions", "export", session, str(file), "--yes")
    assert (await tiny_plane.good("GET", f"/api/sessions/{session}"))["reason"] == "MOVED"
    code, _, err = await command(tiny_plane, "sessions", "export", session, str(file), "--yes")
    assert code == 1
    assert "exists" in err
    code, out, _ = await command(tiny_plane, "sessions", "import", str(file))
    assert code == 0
    assert session in out
    await wait_status(tiny_plane, session, "connected")
    code, out, _ = await command(tiny_plane, "--json", "sessions", "import", str(file))
    assert (code, json.loads(out)["error"]["code"]) == (1, "SESSION_EXISTS")
    await wait_status(tiny_plane, session, "connected")
    # no copy of the credentials stays behind but the export itself, which the operator removes
    kinds = [b["kind"] for b in (await good(tiny_plane, "backups", "list"))["backups"]]
    assert kinds == ["export"]
