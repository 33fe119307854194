"""What a session's folder says about itself."""

from __future__ import annotations

from pathlib import Path

from support.backups import creds, frame, write_auth
from wa_orchestrator.backups.auth_files import AuthState, drop_history, read_auth, read_journal

PHONE = "972500000001"
FOUND = AuthState(
    generation=7, paired=True, phone=PHONE, jid=f"{PHONE}:1@s.whatsapp.net", lid=f"99{PHONE}:1@lid",
    registered_at=1_700_000_000_000,
)  # fmt: skip


def journal(folder: Path) -> Path:
    return folder / "auth" / "journal"


def test_phone_and_generation_are_read(tmp_path: Path) -> None:
    write_auth(tmp_path, PHONE, generation=7)
    assert read_auth(tmp_path) == FOUND


def test_the_last_record_counts(tmp_path: Path) -> None:
    write_auth(tmp_path, "972500000002", generation=3)
    with journal(tmp_path).open("ab") as file:
        file.write(frame(4, f"creds\t{creds(PHONE)}\n") + frame(5, "pre-key-1\t{}\npre-key-2\n"))
    found = read_auth(tmp_path)
    assert found
    assert (found.phone, found.generation) == (PHONE, 5)


def test_a_torn_tail_is_no_damage(tmp_path: Path) -> None:
    write_auth(tmp_path, PHONE, generation=7)
    whole = journal(tmp_path).read_bytes()
    for cut in (1, 20, 35):
        journal(tmp_path).write_bytes(whole + frame(8, "x\ty\n")[:cut])
        assert read_auth(tmp_path) == FOUND


def test_damage_in_the_middle_is_not_read_over(tmp_path: Path) -> None:
    write_auth(tmp_path, PHONE, generation=7)
    broken = bytearray(journal(tmp_path).read_bytes() + frame(8, "x\ty\n"))
    broken[60] ^= 1
    journal(tmp_path).write_bytes(bytes(broken))
    assert read_auth(tmp_path) is None


def test_baileys_own_files_tell_the_phone_too(tmp_path: Path) -> None:
    (tmp_path / "creds.json").write_text(creds(PHONE))
    found = read_auth(tmp_path)
    assert found
    assert (found.phone, found.paired, found.generation) == (PHONE, True, 0)


def test_credentials_that_were_never_paired_have_no_phone(tmp_path: Path) -> None:
    (tmp_path / "creds.json").write_text('{"noiseKey": {}, "me": {"id": "972500000001"}}')
    found = read_auth(tmp_path)
    assert found
    assert (found.paired, found.phone) == (False, "")


def test_nothing_readable_is_nothing(tmp_path: Path) -> None:
    assert read_auth(tmp_path) is None
    (tmp_path / "creds.json").write_text("")
    assert read_auth(tmp_path) is None
    (tmp_path / "creds.json").write_text("[]")
    assert read_auth(tmp_path) is None


def test_history_is_dropped_and_everything_else_stays(tmp_path: Path) -> None:
    write_auth(tmp_path, PHONE, generation=7)
    with journal(tmp_path).open("ab") as file:
        file.write(frame(8, "opened-1\ta message's text\npre-key-1\tfirst\n") + frame(9, "opened-1\npre-key-1\tlast\n"))
        file.write(frame(10, "torn\tx\n")[:20])
    before = read_journal(journal(tmp_path))
    drop_history(journal(tmp_path))
    assert read_journal(journal(tmp_path)) == before
    assert before
    assert (before.generation, before.values[b"pre-key-1"]) == (9, b"last")
    assert b"message's text" not in journal(tmp_path).read_bytes()
    found = read_auth(tmp_path)
    assert found
    assert (found.phone, found.generation) == (PHONE, 9)


def test_a_damaged_journal_is_left_as_it_is(tmp_path: Path) -> None:
    write_auth(tmp_path, PHONE, generation=7)
    broken = bytearray(journal(tmp_path).read_bytes() + frame(8, "x\ty\n"))
    broken[60] ^= 1
    journal(tmp_path).write_bytes(bytes(broken))
    drop_history(journal(tmp_path))
    drop_history(tmp_path / "nothing")
    assert journal(tmp_path).read_bytes() == bytes(broken)
