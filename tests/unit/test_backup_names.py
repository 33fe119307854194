"""Names of backups and which are kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from wa_orchestrator.backups.names import id_of, is_backup_id, kind_of, new_id, too_many

NOW = int(datetime(2026, 11, 15, 1, 0, 5, tzinfo=UTC).timestamp() * 1000)


def test_the_first_of_a_day_has_the_date_and_the_others_the_time_too() -> None:
    first = new_id(NOW, "Asia/Jerusalem", [])
    second = new_id(NOW, "Asia/Jerusalem", [first])
    third = new_id(NOW, "Asia/Jerusalem", [first, second])
    assert [first, second, third] == ["backup_2026-11-15", "backup_2026-11-15_030005", "backup_2026-11-15_030006"]


def test_the_day_is_that_of_the_configured_zone() -> None:
    assert new_id(NOW, "America/New_York", []) == "backup_2026-11-14"


def test_the_eighth_backup_removes_the_oldest() -> None:
    kept = [f"backup_2026-11-{day:02}" for day in range(8, 15)]
    assert too_many(kept, keep=7) == []
    assert too_many([*kept, "backup_2026-11-15"], keep=7) == ["backup_2026-11-08"]


def test_two_of_one_day_count_as_two_and_the_first_is_the_older() -> None:
    assert too_many(["backup_2026-11-15_101500", "backup_2026-11-15"], keep=1) == ["backup_2026-11-15"]


def test_exports_and_foreign_files_are_never_removed() -> None:
    others = ["export_worker_1_2026-11-15", "upload_2026-01-01", "my-own", "backup_before-upgrade"]
    assert too_many([*others, "backup_2026-11-14", "backup_2026-11-15"], keep=1) == ["backup_2026-11-14"]


@pytest.mark.parametrize("text", ["../x", "a/b", ".hidden", "", "a" * 200, "x..y", "a\\b", "a b", "backup\n"])
def test_an_id_is_never_a_path(text: str) -> None:
    assert not is_backup_id(text)


def test_unfinished_and_other_files_are_no_backups() -> None:
    assert [id_of(name) for name in (".unfinished-x.zip", "notes.txt", "b.zip", "b.zip.enc")] == [None, None, "b", "b"]
    assert [kind_of(i) for i in ("backup_2026-11-15", "export_a_1", "mine")] == ["backup", "export", "file"]
