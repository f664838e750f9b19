"""How groups without a tuned op may run: which of the loop generators, and in how many tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir.computation import Reduction
from ..ir.graph import GraphTensor, Op
from ..ir.op_kinds import FusibleOp
from ..ir.schedule import Schedule
from ..ops.movement import Concat
from ..rewriting.groups import is_elementwise, reduces_rows
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .space import ScheduleSpace


class LoopSpace(ScheduleSpace):
    """Tasks of the outermost loop of pointwise ops, reductions, or row panels."""

    meanings = {"tasks": "pieces of the outermost loop, 1 runs it on one thread"}

    def __init__(
        self, algorithm: str, group: KernelGroup, elements: int, ctx: LowerContext
    ) -> None:
        details = group.outputs[0].details
        kinds = "_".join(dict.fromkeys(op.op_name for op in group.ops))
        dims = "x".join(map(str, details.plain_dims)) or "scalar"
        super().__init__(group.ops[-1].name, f"{algorithm} {kinds} {dims} {details.dtype}")
        self.algorithm = algorithm
        self.elements = elements
        self.threads = ctx.options.threads
        self.least = ctx.target.machine.parallel_elements

    @property
    def pick(self) -> Schedule:
        """A task per thread, where that pays."""
        tasks = self.threads if self.elements >= self.least else 1
        return Schedule.of(self.algorithm, tasks=tasks)

    def ranked(self) -> list[Schedule]:
        """The pick, one task, and one, two and four per thread."""
        tasks = (1, *(self.threads * i for i in (1, 2, 4))) if self.threads > 1 else (1,)
        others = (Schedule.of(self.algorithm, tasks=count) for count in tasks)
        return list(dict.fromkeys((self.pick, *others)))


def loop_space(group: KernelGroup, ctx: LowerContext) -> LoopSpace:
    """The space of a group of pointwise ops and reductions."""
    output = group.outputs[0]
    elements = math.prod(output.details.physical_dims)
    reductions = [op for op in group.ops if combines(op)]
    if not reductions:
        joined = len(group.outputs) == 1 and joined_concat(group.ops, output) is not None
        return LoopSpace("joined" if joined else "pointwise", group, elements, ctx)
    first = reductions[0]
    rows = first.inputs[0].details.plain_dims
    if len(reductions) > 1 or (output.details.plain_dims == rows and reduces_rows(first)):
        return LoopSpace("rows", group, math.prod(rows), ctx)
    computation = first.computation() if isinstance(first, FusibleOp) else None
    assert isinstance(computation, Reduction)
    return LoopSpace("reduction", group, elements * math.prod(computation.extents), ctx)


def combines(op: Op) -> bool:
    """Whether the op is lowered as a reduction: products of types that no template multiplies are."""
    return isinstance(op, FusibleOp) and isinstance(op.computation(), Reduction)


def joined_concat(ops: Sequence[Op], output: GraphTensor) -> Concat | None:
    """The concat of a pointwise group (in topological order) whose parts may have a loop nest each; None for others.

    All that is computed from its result must be elementwise and of its shape, so that element i of the output comes
    from element i of it; and no axis may be padded, nor the joined one be cut into blocks.
    """
    concats = [op for op in ops if isinstance(op, Concat)]
    if len(concats) != 1:
        return None
    (concat,) = concats
    dims, fmt = concat.outputs[0].details.plain_dims, output.details.format
    behind: set[Op] = {concat}
    for op in ops:
        if any(x.producer_owner in behind for x in op.inputs):
            behind.add(op)
            if not is_elementwise(op) or op.outputs[0].details.plain_dims != dims:
                return None
    cut = fmt.block_of(concat.axis) > 1 or fmt.is_padded(dims)
    return None if cut else concat
