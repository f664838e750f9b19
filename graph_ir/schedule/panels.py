"""Formats of a matrix in panels: `KN`-like axes with n in blocks, groups of neighboring k innermost, k padded to
steps."""

from __future__ import annotations

from typing import NamedTuple

from ...targets.isa import Microkernel, tile_depth
from ..ir.format import Format

BLOCK = 16
"""Rows and columns of a block, of matrices that lie in blocks."""


class Panel(NamedTuple):
    """Columns of a panel, neighboring k that lie together, and groups of k that the depth is padded to."""

    columns: int
    k_group: int = 1
    depth: int = 1


def panel_of(fmt: Format) -> Panel:
    """Return the panel of a blocked format of B."""
    blocks = fmt.blocks[fmt.rank :]
    if len(blocks) == 3:
        depth, columns, group = blocks
        return Panel(columns, group, depth)
    return Panel(*blocks)


def panel_for(kernel: Microkernel, columns: int, k: int) -> Panel:
    """Return the panel that a microkernel reads; padding only where whole steps of k need it."""
    groups = -(-k // kernel.k_group)
    if kernel.registers is None or kernel.padded_groups(k) == groups:
        return Panel(columns, kernel.k_group)
    return Panel(columns, kernel.k_group, tile_depth(k, kernel.k_group, kernel.registers).depth)


def in_panels(plain: Format, n_axis: int, k_axis: int, panel: Panel) -> Format:
    """Return the format of B in panels: batch axes, outer n, then k, then n inside the panel, groups of k innermost."""
    rank = plain.rank
    order = [*range(rank - 2), n_axis, k_axis]
    blocks = [0] * rank
    for axis, block in ((k_axis, panel.depth), (n_axis, panel.columns), (k_axis, panel.k_group)):
        if block > 1 or axis == n_axis:
            order.append(axis)
            blocks.append(block)
    return Format(plain.axes, tuple(order), tuple(blocks))
