"""Encryption of a backup with a passphrase: scrypt for the key, AES-256-GCM in chunks (the STREAM construction).

    magic 6 | salt 16 | nonce prefix 7 | header MAC 32 | chunk | chunk | … | last chunk

Each chunk holds 64 KiB and a 16-byte tag; its nonce is prefix, number and whether it is the last. So no chunk can be
changed, moved, left out or cut off unnoticed, files of any size need little memory, and a reader can jump to any place.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import secrets
from typing import TYPE_CHECKING, BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from wa_orchestrator.errors import BackupDamaged, BackupWrongPassphrase

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAGIC = b"WAOB1\n"
_SALT, _PREFIX, _MAC, _TAG = 16, 7, 32, 16
_HEADER = len(MAGIC) + _SALT + _PREFIX + _MAC
_CHUNK = 64 * 1024
_SEALED = _CHUNK + _TAG
# 32 MB and about a tenth of a second per guess; never read from the file, which could ask for anything
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 15, 8, 1


def _keys(passphrase: str, salt: bytes) -> tuple[AESGCM, bytes]:
    made = hashlib.scrypt(
        passphrase.encode(), salt=salt, n=_SCRYPT_N, r=_SCRYPT_R, p=_SCRYPT_P, dklen=64, maxmem=128 * 1024 * 1024
    )
    return AESGCM(made[:32]), made[32:]


def _nonce(prefix: bytes, number: int, *, last: bool) -> bytes:
    return prefix + number.to_bytes(4, "big") + (b"\x01" if last else b"\x00")


class SealedWriter(io.RawIOBase):
    """Encrypts what is written and passes it on; the last chunk is written by `close`."""

    def __init__(self, target: BinaryIO, passphrase: str) -> None:
        self._target = target
        salt, self._prefix = secrets.token_bytes(_SALT), secrets.token_bytes(_PREFIX)
        self._cipher, mac_key = _keys(passphrase, salt)
        head = MAGIC + salt + self._prefix
        target.write(head + hmac.digest(mac_key, head, "sha256"))
        self._waiting = bytearray()
        self._number = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        self._waiting += view
        # a full chunk waits until more comes: it may be the last
        while len(self._waiting) > _CHUNK:
            self._seal(bytes(self._waiting[:_CHUNK]), last=False)
            del self._waiting[:_CHUNK]
        return len(view)

    def _seal(self, plain: bytes, *, last: bool) -> None:
        self._target.write(self._cipher.encrypt(_nonce(self._prefix, self._number, last=last), plain, None))
        self._number += 1

    def close(self) -> None:
        if not self.closed:
            self._seal(bytes(self._waiting), last=True)
        super().close()

    def abandon(self) -> None:
        """Closes without the last chunk: what was written can never be opened."""
        super().close()


class SealedReader(io.RawIOBase):
    """The plain content of an encrypted file, to be read at any place."""

    def __init__(self, source: BinaryIO, passphrase: str) -> None:
        self._source = source
        head = source.read(_HEADER)
        if len(head) < _HEADER or not head.startswith(MAGIC):
            raise BackupDamaged(details={"problem": "truncated"})
        signed, mac = head[:-_MAC], head[-_MAC:]
        self._prefix = signed[-_PREFIX:]
        self._cipher, mac_key = _keys(passphrase, signed[len(MAGIC) : len(MAGIC) + _SALT])
        if not hmac.compare_digest(hmac.digest(mac_key, signed, "sha256"), mac):
            raise BackupWrongPassphrase
        sealed = source.seek(0, os.SEEK_END) - _HEADER
        self._chunks = max(1, -(-sealed // _SEALED))
        self._size = sealed - self._chunks * _TAG
        if sealed - (self._chunks - 1) * _SEALED < _TAG:
            raise BackupDamaged(details={"problem": "truncated"})
        self._at = 0
        self._held: tuple[int, bytes] = (-1, b"")
        self._chunk(self._chunks - 1)  # a file cut at a chunk's end has no last chunk

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        view = memoryview(buffer).cast("B")
        if self._at >= self._size:
            return 0
        number, offset = divmod(self._at, _CHUNK)
        found = self._chunk(number)[offset : offset + len(view)]
        view[: len(found)] = found
        self._at += len(found)
        return len(found)

    def _chunk(self, number: int) -> bytes:
        if self._held[0] != number:
            self._source.seek(_HEADER + number * _SEALED)
            sealed = self._source.read(_SEALED)
            nonce = _nonce(self._prefix, number, last=number == self._chunks - 1)
            try:
                self._held = (number, self._cipher.decrypt(nonce, sealed, None))
            except InvalidTag:
                problem = "truncated" if number == self._chunks - 1 else "checksum"
                raise BackupDamaged(details={"problem": problem}) from None
        return self._held[1]

    def close(self) -> None:
        self._source.close()
        super().close()
