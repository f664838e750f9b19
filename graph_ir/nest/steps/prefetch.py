"""prefetch B 8

Each register tile of at least 8 rows prefetches its share of the panel of B that follows.
"""

from __future__ import annotations

from ....base.errors import UserError
from ..nest import Nest


def prefetch(nest: Nest, operand: str, rows: int) -> Nest:
    """Prefetch the next panel of B meanwhile. Raise UserError unless B lies in panels and a tile of some rows has been
    chosen."""
    if operand != "B" or not nest.tile or not nest.problem.b.blocks:
        raise UserError(
            "schedule: prefetch: B must lie in panels, and a tile must have been chosen"
        )
    if rows < 1:
        raise UserError(f"schedule: prefetch: the rows of a tile must be 1 or more, got {rows}")
    return nest.changed(prefetch=rows)
