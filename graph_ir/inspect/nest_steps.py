"""The steps that lead from the naive nests of a contraction to its kernel, each with the loops after it."""

from __future__ import annotations

from collections.abc import Iterator

from ...tensor_ir.nodes import Function
from ..ir.op import Op
from ..lowering.contraction import ContractionKernel
from ..lowering.convolution import convolution_kernel
from ..lowering.matmul import matmul_kernel
from ..lowering.registry import get_func, with_sizes
from ..nest.lower import lower
from ..nest.schedule_text import steps_of
from ..ops.convolution import DirectConvolution
from ..ops.matmul import MatmulCore
from ..rewriting.groups import is_tuned
from ..rewriting.kernel_group import group_of
from ..schedule.context import LowerContext
from ..schedule.spaces import schedule_of, space_of
from ..schedule.taken_steps import taking

NAIVE = "contraction"
"""The name of the state before the first step: the definition of the result."""


def nest_steps(op: Op, ctx: LowerContext) -> Iterator[tuple[str, Function]]:
    """Yield (step, function after it) for the kernel of a contraction; nothing for other ops.

    A kernel of several nests, such as attention, begins with the settings of its schedule and plain loops; each step is
    then one of a nest, `scores: split n 32`. Every function computes the same result; the interpreter runs each.
    """
    kernel = contraction_kernel(op, ctx)
    if kernel is not None:
        yield NAIVE, with_sizes(kernel.function(lower(kernel.nest, ctx.target)))
        for step, after in steps_of(kernel.nest, kernel.schedule):
            yield step, with_sizes(kernel.function(lower(after, ctx.target)))
        return

    def function(limit: int) -> tuple[Function, list[str]]:
        with taking(limit) as taken:
            (made,) = get_func(op, ctx).functions
        return made, [f"{name}: {step}" for name, steps in taken.nests.items() for step in steps]

    first, steps = function(0)
    if steps:
        yield str(schedule_of(op, ctx) if space_of(op, ctx) else op.op_name), first
    for limit, step in enumerate(steps, 1):
        yield step, function(limit)[0]


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
