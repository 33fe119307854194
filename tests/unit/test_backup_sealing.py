"""Encrypted backups: any change, cut or wrong passphrase is noticed."""

from __future__ import annotations

import io
import random
from pathlib import Path

import pytest

from wa_orchestrator.backups import sealing
from wa_orchestrator.backups.sealing import SealedReader, SealedWriter
from wa_orchestrator.errors import BackupDamaged, BackupWrongPassphrase

CHUNK = 64 * 1024
PASSPHRASE = "correct horse"
HEADER = 6 + 16 + 7 + 32


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_SCRYPT_N", 2)


def sealed(data: bytes, passphrase: str = PASSPHRASE) -> bytes:
    target = io.BytesIO()
    with SealedWriter(target, passphrase) as writer:
        for at in range(0, len(data), 50_000):
            writer.write(data[at : at + 50_000])
    return target.getvalue()


def unsealed(data: bytes, passphrase: str = PASSPHRASE) -> bytes:
    with io.BufferedReader(SealedReader(io.BytesIO(data), passphrase)) as reader:
        return reader.read()


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 7])
def test_what_was_sealed_comes_back(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert unsealed(sealed(data)) == data


def test_a_reader_may_jump_anywhere() -> None:
    data = random.Random(1).randbytes(5 * CHUNK + 100)
    reader = io.BufferedReader(SealedReader(io.BytesIO(sealed(data)), "correct horse"))
    for at, length in ((4 * CHUNK + 90, 200), (10, 20), (CHUNK - 5, 10), (5 * CHUNK + 50, 500)):
        reader.seek(at)
        assert reader.read(length) == data[at : at + length]


def test_nothing_of_the_content_is_readable() -> None:
    assert b"secret" not in sealed(b"secret" * 1000)


def test_two_backups_of_the_same_content_have_nothing_in_common() -> None:
    assert sealed(b"x" * 100)[6:] != sealed(b"x" * 100)[6:]


def test_a_wrong_passphrase_is_told_as_such() -> None:
    with pytest.raises(BackupWrongPassphrase):
        unsealed(sealed(b"x"), "wrong")


@pytest.mark.parametrize("at", [HEADER, HEADER + 100, HEADER + CHUNK + 20, -1])
def test_a_changed_byte_is_noticed(at: int) -> None:
    broken = bytearray(sealed(random.Random(2).randbytes(2 * CHUNK)))
    broken[at] ^= 1
    with pytest.raises(BackupDamaged):
        unsealed(bytes(broken))


def test_a_changed_header_is_noticed() -> None:
    broken = bytearray(sealed(b"x"))
    broken[6 + 16] ^= 1  # the nonce prefix
    with pytest.raises(BackupWrongPassphrase):
        unsealed(bytes(broken))


@pytest.mark.parametrize(
    "size", [10, HEADER, HEADER + 10, HEADER + CHUNK + 16, HEADER + CHUNK + 17, HEADER + 2 * CHUNK]
)
def test_a_cut_file_is_noticed_when_it_is_opened(size: int) -> None:
    whole = sealed(random.Random(3).randbytes(3 * CHUNK))
    with pytest.raises(BackupDamaged):
        SealedReader(io.BytesIO(whole[:size]), "correct horse")


def test_swapped_chunks_are_noticed() -> None:
    whole = sealed(random.Random(4).randbytes(3 * CHUNK))
    first, second = HEADER, HEADER + CHUNK + 16
    third = second + CHUNK + 16
    with pytest.raises(BackupDamaged):
        unsealed(whole[:first] + whole[second:third] + whole[first:second] + whole[third:])


def test_the_usual_key_derivation_is_costly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    assert sealing._SCRYPT_N >= 1 << 15
    assert unsealed(sealed(b"content")) == b"content"
