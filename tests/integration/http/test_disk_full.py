"""An upload onto a full disk, and what nobody foresaw: one clear answer, nothing left behind."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from support.control_plane import ControlPlane, control_plane
from support.servers import StoreServer


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("a small disk of its own can only be mounted by root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


async def test_an_upload_onto_a_full_disk_is_refused_and_the_next_one_goes(
    valkey: StoreServer, small_disk: Path
) -> None:
    async with control_plane(small_disk / "data", REDIS_URL=valkey.url) as plane:
        too_much = await plane.call("POST", "/api/v1/media", raw=io.BytesIO(b"x" * (2 << 20)))
        assert (too_much.status, too_much.code) == (503, "DISK_FULL"), too_much.body
        assert list((small_disk / "data" / "media").iterdir()) == []
        assert (await plane.call("POST", "/api/v1/media", raw=b"x" * 1000)).status == 201


async def test_an_error_that_nobody_foresaw_has_the_form_of_all_errors(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken() -> None:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(plane.store.proxies, "all", broken)
    with capture_logs() as lines:
        answer = await plane.call("GET", "/api/v1/proxies")
    assert "request_failed" in [line["event"] for line in lines]
    assert (answer.status, answer.code) == (500, "INTERNAL")
    assert answer.json["error"]["requestId"]
    assert b"secret" not in answer.body
