"""The rows of every family of ops, one file each."""

from ..row import Table
from . import (
    activation,
    contraction,
    elementwise,
    indexing,
    layers,
    movement,
    normalization,
    reduction,
    windows,
)

TABLE = Table((
    *elementwise.ROWS, *activation.ROWS, *reduction.ROWS, *contraction.ROWS, *movement.ROWS, *indexing.ROWS,
    *windows.ROWS, *normalization.ROWS, *layers.ROWS,
))  # fmt: skip
"""All rows, in the order in which they are tried and listed."""
