"""Fusible ops, described once as a computation over plain indices.

pointwise  out[i] = f(in_0[map_0(i)], in_1[map_1(i)], ...)     elementwise, broadcast and movement ops
reduction  out[i] = finish(reduce over r of f(in_k[map_k(i, r)]))

One generator (`templates.loops`) turns any group of these, in any layout, into vectorized loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.records import dataclass
from ...tensor_ir.nodes import Expr

Index = tuple[Expr, ...]
Read = Callable[[Index], Expr]
"""Value of an input at a plain index; 16-bit floats arrive widened to f32."""


@dataclass(frozen=True)
class Pointwise:
    """`element(reads, index)`: the output at plain `index`; a 16-bit float result may be given as f32."""

    element: Callable[[Sequence[Read], Index], Expr]


@dataclass(frozen=True)
class Reduction:
    """`element(reads, index, r)` combined by `combine` (add mul min max and or) over r in the box `extents`.

    `index` is the plain output index. The accumulator starts at `identity` and has the dtype of `element`;
    `finish` turns it into the result (the division of a mean).
    """

    extents: tuple[int, ...]
    combine: str
    identity: int | float | bool
    element: Callable[[Sequence[Read], Index, Index], Expr]
    finish: Callable[[Expr], Expr]


Computation = Pointwise | Reduction
