"""Kernels whose inputs may be empty: what an op reads at a clamped index and discards would lie outside of them.

before   for i < N + 2: out[i] = select(i < N, in0[max(min(i, N - 1), 0)], 0)
after    if N > 0: the same loop
         else: for i < N + 2: out[i] = select(i < N, 0, 0)
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.dims import bounds
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Buffer, Expr, Function, If, Load
from ...tensor_ir.visitor import Rewriter
from ..ir.group_values import parameters
from ..ops.movement import Concat
from ..ops.pad import Pad
from ..rewriting.kernel_group import KernelGroup


class _WithoutReads(Rewriter):
    """Replaces loads of one buffer by 0."""

    def __init__(self, empty: Buffer) -> None:
        self._empty = empty

    def load(self, e: Load) -> Expr:
        """Return 0 instead of an element of the empty buffer."""
        return t.const(0, e.dtype) if e.buffer.name == self._empty.name else super().load(e)


def without_reads_of_empty(function: Function, group: KernelGroup) -> Function:
    """Return a function that reads no input without elements, where ops pad or join inputs that may have none."""
    if not any(isinstance(op, (Pad, Concat)) for op in group.ops):
        return function
    for x, buffer in parameters(group.inputs, ()).items():
        dims = [bounds(size)[0] for size in x.details.plain_dims]
        if 0 in dims and not x.details.is_empty:
            other = _WithoutReads(buffer).body(function.body)
            if other is not function.body:
                elements = math.prod(x.details.plain_dims)
                some = If(t.as_expr(elements) > 0, function.body, other)
                function = replace(function, body=Block((some,)))
    return function
