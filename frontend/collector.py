"""Pauses Python's garbage collector while large structures are built."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disables the search for cyclic garbage inside; also a decorator.

    A tree of millions of live objects would be traced again each time it grows by a quarter: that took 40 % of the time
    of reading a large model. Reference counting still frees acyclic garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
