"""The collector of cyclic garbage, paused while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep Python from looking for cyclic garbage inside the block.

    Modules, graphs and programs are many objects of which few become garbage: searching them again and again while they
    are made takes a tenth of the time to compile. A collector that the program has turned off stays off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
