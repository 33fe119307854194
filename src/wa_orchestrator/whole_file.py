"""A file that comes in pieces is there as a whole, on disk, or not at all."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from wa_orchestrator.errors import TooLarge


async def write_whole(
    target: Path,
    chunks: AsyncIterator[bytes],
    *,
    max_bytes: int,
    setting: str,
    seen: Callable[[bytes], None] = lambda _: None,
    check: Callable[[int], None] = lambda _: None,
) -> int:
    """The size. `seen` gets every piece; `check` gets the size and raises when the file must not stay."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    size = 0
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            async for chunk in chunks:
                size += len(chunk)
                if size > max_bytes:
                    raise TooLarge(f"The file is larger than {max_bytes} bytes ({setting}).")
                seen(chunk)
                file.write(chunk)
            check(size)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())  # a slow disk must not hold everybody up
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return size
