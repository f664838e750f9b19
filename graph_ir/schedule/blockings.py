"""The blockings of any tuned op that offers some: what tools ask to list, try and explain them."""

from __future__ import annotations

from dataclasses import replace

from ..ir.graph import Op
from ..ops.convolution_direct import DirectConvolution
from ..ops.matmul import MatmulCore
from .context import LowerContext
from .direct_convolution import convolution_candidates, convolution_choice, convolution_cycles
from .matmul import matmul_blocking, matmul_blockings, matmul_cycles
from .matmul_tile import MatmulBlocking
from .problem import problem_of

Blocked = MatmulCore | DirectConvolution


def blocked_op(op: Op) -> Blocked | None:
    """The op itself if its template takes a blocking, which a tuning file may name by its problem."""
    return op if isinstance(op, (MatmulCore, DirectConvolution)) and op.is_tuned else None


def blocking_of(op: Blocked, ctx: LowerContext) -> MatmulBlocking:
    """The blocking the op runs with: the one asked for, else the cost model's."""
    if isinstance(op, DirectConvolution):
        return convolution_choice(op, ctx).blocking
    return matmul_blocking(op, ctx)


def offered_blockings(op: Blocked, ctx: LowerContext) -> list[MatmulBlocking]:
    """Every blocking on offer for the layouts the op has; the model's pick first."""
    if isinstance(op, DirectConvolution):
        return [choice.blocking for choice in convolution_candidates(op, ctx)]
    return matmul_blockings(op, ctx)


def predicted_cycles(op: Blocked, blocking: MatmulBlocking, ctx: LowerContext) -> float:
    """What the cost model says the op takes under a blocking, in the layouts it has."""
    if isinstance(op, DirectConvolution):
        return convolution_cycles(op, blocking, ctx)
    return matmul_cycles(op, blocking, ctx)


def asking(op: Blocked, blocking: MatmulBlocking, ctx: LowerContext) -> LowerContext:
    """The context in which the op runs with a blocking."""
    return replace(ctx, blockings={problem_of(op): blocking})
