"""What the rooms hear of the store's errors."""

from __future__ import annotations

import pytest
from redis.exceptions import BusyLoadingError, OutOfMemoryError, ReadOnlyError, ResponseError

from wa_orchestrator.errors import StoreFull, StoreUnavailable
from wa_orchestrator.store.connection import translated

_MISCONF = "MISCONF Errors writing to the AOF file: No space left on device"


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), StoreFull),
        (ResponseError(_MISCONF), StoreFull),
        (BusyLoadingError("loading"), StoreUnavailable),
        (ReadOnlyError("a replica"), StoreUnavailable),
        (ConnectionResetError(), StoreUnavailable),
        (ResponseError("WRONGTYPE Operation against a key"), ResponseError),
    ],
)
def test_each_error_is_told_as_what_it_is(error: Exception, heard: type[Exception]) -> None:
    told = translated(error)
    assert type(told) is heard
    assert told is error or told.__cause__ is error
