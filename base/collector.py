"""The collector of cyclic garbage, paused while many objects are made that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep Python from looking for cyclic garbage inside the block.

    Modules, graphs and programs are many objects of which few become garbage: searching them again and again while they
    are made takes a tenth of the time to compile, and 40 % of the time of reading a large model. Reference counting
    still frees what is in no cycle. A collector that the program has turned off stays off. Also a decorator.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def loading_modules() -> Iterator[None]:
    """The same of modules, which stay until the process ends: what they are made of is never searched while young.

    The first search after 300 imports took a tenth of the time in which a process compiles its first op. Objects that
    the program itself has frozen stay so: then nothing is moved.
    """
    with paused_collector():
        yield
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()  # to the oldest generation
