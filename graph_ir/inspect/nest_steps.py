"""The steps that lead from the naive nest of a matmul or convolution to its kernel, each with the loops after it."""

from __future__ import annotations

from collections.abc import Iterator

from ...tensor_ir.nodes import Function
from ..ir.op import Op
from ..lowering.contraction import ContractionKernel
from ..lowering.convolution import convolution_kernel
from ..lowering.matmul import matmul_kernel
from ..lowering.registry import with_sizes
from ..nest.lower import lower
from ..nest.nest import Nest
from ..nest.scalar import lower_scalar
from ..nest.schedule_text import steps_of
from ..ops.convolution_direct import DirectConvolution
from ..ops.matmul import MatmulCore
from ..rewriting.groups import is_tuned
from ..rewriting.kernel_group import group_of
from ..schedule.context import LowerContext
from ..schedule.spaces import schedule_of

NAIVE = "contraction"
"""The name of the state before the first step: the definition of the result."""


def nest_steps(op: Op, ctx: LowerContext) -> Iterator[tuple[str, Function]]:
    """Yield (step, function after it) for the kernel of a matmul or direct convolution; nothing for other ops.

    Every function computes the same result; the interpreter runs each.
    """
    kernel = contraction_kernel(op, ctx)
    if kernel is None:
        return

    def function(nest: Nest) -> Function:
        body = lower(nest, ctx.target) if nest.tile else lower_scalar(nest)
        return with_sizes(kernel.function(body))

    yield NAIVE, function(kernel.nest)
    for step, after in steps_of(kernel.nest, kernel.schedule):
        yield step, function(after)


def contraction_kernel(op: Op, ctx: LowerContext) -> ContractionKernel | None:
    """Return the contraction that the kernel of an op is, alone or with the ops around it; None for other kernels."""
    group = group_of(op)
    heads = [one for one in group.ops if isinstance(one, MatmulCore | DirectConvolution)]
    if len(heads) != 1 or sum(map(is_tuned, group.ops)) != 1:
        return None
    head, schedule = heads[0], schedule_of(op, ctx)
    if isinstance(head, MatmulCore):
        return matmul_kernel(head, group, schedule, ctx)
    return convolution_kernel(head, group, schedule, ctx)
