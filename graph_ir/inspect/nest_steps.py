"""The steps that lead from the naive nest of a matmul to its kernel, each with the loops after it."""

from __future__ import annotations

from collections.abc import Iterator

from ...tensor_ir.nodes import Function
from ..ir.op import Op
from ..lowering.matmul import matmul_kernel
from ..lowering.registry import with_sizes
from ..nest.lower import lower
from ..nest.matmul import matmul_schedule
from ..nest.nest import Nest, contraction
from ..nest.scalar import lower_scalar
from ..nest.schedule_text import steps_of
from ..ops.matmul import MatmulCore
from ..rewriting.kernel_group import group_of
from ..schedule.context import LowerContext
from ..schedule.spaces import schedule_of

NAIVE = "contraction"
"""The name of the state before the first step: the definition of the result."""


def nest_steps(op: Op, ctx: LowerContext) -> Iterator[tuple[str, Function]]:
    """Yield (step, function after it) for the kernel of a matmul or of the group around one; nothing for other ops.

    Every function computes the same result; the interpreter runs each.
    """
    group = group_of(op)
    heads = [one for one in group.ops if isinstance(one, MatmulCore)]
    schedule = schedule_of(op, ctx)
    if len(heads) != 1 or schedule.algorithm != "gemm":
        return
    kernel = matmul_kernel(heads[0], group, schedule, ctx)

    def function(nest: Nest) -> Function:
        body = lower(nest, ctx.target) if nest.tile else lower_scalar(nest)
        return with_sizes(kernel.function(body))

    nest = contraction(kernel.problem)
    yield NAIVE, function(nest)
    for step, after in steps_of(nest, matmul_schedule(kernel.problem, kernel.blocking, ctx.target)):
        yield step, function(after)
