"""How often Python looks for garbage in a process that serves."""

from __future__ import annotations

import gc


def calm_collector() -> None:
    """To be called when everything is assembled: what is there now stays, and is not looked through again and again.

    A request makes hundreds of objects and next to no cycles; with Python's own thresholds the search for them was a
    tenth of the cost of a request (docs/reference/benchmarks.md).
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
