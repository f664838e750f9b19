"""Every function of this folder: those that cells name after `by`, and those that no cell names."""

from __future__ import annotations

from ..correspondence.gathering import of_all
from . import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    counted,
    creation,
    encoder_layer,
    indexing,
    lookup,
    movement,
    normalization,
    reduction,
    resize,
    windows,
)
from .call import Handler

READS = of_all(globals(), "READS")
"""Readers by the name after `by`."""

CALLS: dict[str, Handler] = of_all(globals(), "CALLS")
"""Readers by the name after `torch.`."""
