"""Copies of B in blocks of 16 by 16 into a panel: `KN16n16k` has k innermost, registers take neighboring columns."""

from __future__ import annotations

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Stmt, Store, Var
from .packing import loop
from .problem import View


def pack_blocks(
    source: View, local: Buffer, depth: int, n: int, columns: int, k_group: int
) -> list[Stmt]:
    """Return the copy of `depth` x `n` elements into a panel of `columns`, padded with zeros."""
    block, distance = source.blocks["k"]
    body: list[Stmt] = []
    if n < columns or depth % k_group:
        z = Var("pz")
        body.append(loop(z, local.elements, Store(local, (z,), t.const(0, local.dtype)), "vector"))

    def copy(number: Expr, size: int) -> Stmt:
        """One block of B, of which `size` k are elements."""
        k, j = Var("pk"), Var("pj")
        offset = source.base + (
            number * distance + (j * source.strides["n"] + k * source.strides["k"])
        )
        to = number * (block * columns) + (k // k_group * (columns * k_group) + k % k_group)
        value = t.cast(source.buffer[offset], local.dtype)
        store = Store(local, (to + j * k_group,), value)
        return loop(k, size, loop(j, n, store, "vector" if k_group == 1 else "serial"), "serial")

    full, rest = divmod(depth, block)
    number = Var("kb")
    if full:
        body.append(loop(number, full, copy(number, block), "serial"))
    return [*body, copy(t.as_expr(full), rest)] if rest else body
