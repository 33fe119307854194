"""A process is recognised by pid, start time and boot, never by the pid alone."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.processes.identity import (
    ProcessIdentity,
    boot_id,
    identity_of,
    is_alive,
    is_present,
    parse_identity,
    parse_stat,
    read_identity,
)

_AFTER_NAME = "S 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1000 50"


def _me() -> ProcessIdentity:
    identity = identity_of(os.getpid())
    assert identity is not None
    return identity


@given(name=st.text(max_size=15))
def test_any_program_name_leaves_state_and_start_time_readable(name: str) -> None:
    assert parse_stat(f"7 ({name}) {_AFTER_NAME}\n") == ("S", 987654)


@given(
    pid=st.integers(min_value=2, max_value=1 << 22),
    start_ticks=st.integers(min_value=0, max_value=1 << 63),
    boot=st.uuids().map(str),
)
def test_what_is_written_is_read_back(pid: int, start_ticks: int, boot: str) -> None:
    identity = ProcessIdentity(pid=pid, start_ticks=start_ticks, boot_id=boot)
    assert parse_identity(identity.as_text()) == identity


@pytest.mark.parametrize(
    "text", ["", "12", "12 34", "x 34 boot", "12 -3 boot", "1 34 boot", "0 0 boot", "-5 1 b", "² 1 b"]
)
def test_a_damaged_pid_file_points_at_nobody(text: str) -> None:
    assert parse_identity(text) is None


@given(st.binary(max_size=60))
def test_garbage_never_raises(garbage: bytes) -> None:
    parse_identity(garbage.decode("ascii", errors="replace"))


def test_a_missing_pid_file_points_at_nobody(tmp_path: Path) -> None:
    assert read_identity(tmp_path / "none.pid") is None


def test_a_living_process_is_recognised() -> None:
    assert is_alive(_me())
    assert is_present(_me())
    assert _me().boot_id == boot_id()


def test_the_same_pid_with_another_start_time_is_someone_else() -> None:
    recycled = replace(_me(), start_ticks=_me().start_ticks - 1)
    assert not is_alive(recycled)
    assert not is_present(recycled)


def test_the_same_pid_and_start_time_of_another_boot_is_someone_else() -> None:
    assert not is_present(replace(_me(), boot_id="00000000-0000-0000-0000-000000000000"))


def test_an_ended_child_is_present_but_not_alive_until_collected() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        identity = identity_of(child.pid)
        assert identity is not None
        assert child.stdin is not None
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_present(identity)
        assert not is_alive(identity)
        child.wait()
        assert not is_present(identity)
