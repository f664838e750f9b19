"""Schedules of groups without a tuned op: the loop generator, its tasks and its innermost loops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from ...base.dims import Size, is_known
from ...base.size_queries import typical
from ..ir.graph import GraphTensor, Op
from ..ir.op_kinds import reduction
from ..ir.schedule import Parameter, Schedule
from ..ops.movement import Concat
from ..rewriting.groups import is_elementwise, reduces_rows
from ..rewriting.kernel_group import KernelGroup
from .context import LowerContext
from .loop_access import has_edges, reads_strided, walks_result
from .repeat import repeats_rows
from .row_cost import RowCost
from .space import ScheduleSpace
from .transpose import transpose_tiles_of

MAX_SCALARS = 8
"""Up to this many elements of the innermost axis, strided loads are faster as scalars than as a gather."""

MAX_UNROLLED = 16
"""Elements of an axis that may be written out one at a time."""

BLOCKS = (16, 32, 64, 128)
"""Elements of a block of a transpose that are tried."""

STRIDED = ("transpose", "reorder")
"""Ops that read along another axis than they write."""


MAX_ROWS = 8
"""Maximum number of interleaved rows: enough to hide the latency of a reduction behind the work of the others."""

LONG = 64
"""Elements of an axis that is worth vectors."""

TASKS = {"tasks": "pieces of the outermost loop, 1 runs it on one thread"}


class LoopSpace(ScheduleSpace):
    """Tasks of the outermost loop of pointwise ops, reductions, or row panels."""

    meanings: Mapping[str, str] = TASKS

    def __init__(
        self, algorithm: str, group: KernelGroup, elements: Size, ctx: LowerContext
    ) -> None:
        details = group.outputs[0].details
        kinds = "_".join(dict.fromkeys(op.op_name for op in group.ops))
        dims = "x".join(map(str, details.plain_dims)) or "scalar"
        super().__init__(group.ops[-1].name, f"{algorithm} {kinds} {dims} {details.dtype}")
        self.algorithm = algorithm
        self.group = group
        self.elements = elements
        self.threads = ctx.options.threads
        self.worthwhile = ctx.threads_for(elements)
        self.l1_bytes = ctx.target.l1_bytes
        self.line_bytes = ctx.target.machine.cache_line
        self.dims = tuple(map(_assumed, details.physical_dims))

    @cached_property
    def pick(self) -> Schedule:
        """A task per thread, where that pays."""
        return Schedule.of(self.algorithm, tasks=self.worthwhile, **self.inner())

    def inner(self) -> dict[str, Parameter]:
        """The parameters beside tasks, as they are best."""
        return {}

    def others(self) -> list[dict[str, Parameter]]:
        """Other values of them, worth trying each."""
        return []

    def ranked(self) -> list[Schedule]:
        """The pick, one task, one, two and four per thread, and other inner loops."""
        tasks = [1]
        if self.threads > 1 and any(size > 1 for size in self.dims):
            tasks += [self.threads * i for i in (1, 2, 4)]
        found = [self.pick, *(self.pick.replaced(tasks=count) for count in tasks)]
        found += [self.pick.replaced(**changes) for changes in self.others()]
        return list(dict.fromkeys(found))


class PointwiseSpace(LoopSpace):
    """The innermost loop of pointwise ops: in vectors, in parts between the edges of padding and the like, or written
    out where it is short."""

    meanings: Mapping[str, str] = TASKS | {
        "inner": "vector, parts (vectors, apart from the edges), shuffled (of repeats) or unrolled, how the innermost "
        "axis of the result is run through"
    }
    words = ("inner",)
    choices = {"inner": ("vector", "parts", "shuffled", "unrolled")}

    def __init__(
        self, algorithm: str, group: KernelGroup, elements: Size, ctx: LowerContext
    ) -> None:
        super().__init__(algorithm, group, elements, ctx)
        self.may_split = ctx.options.enabled("split-loops")
        self.may_shuffle = ctx.options.enabled("shuffled-rows") and repeats_rows(group)

    @cached_property
    def has_edges(self) -> bool:
        """Return whether the innermost loop falls into parts."""
        return self.may_split and len(self.dims) > 1 and has_edges(self.group)

    def inner(self) -> dict[str, Parameter]:
        """Strided loads of a few elements are faster as scalars than as a gather; edges are kept apart."""
        if self.may_shuffle:
            return {"inner": "shuffled"}
        few = len(self.dims) > 1 and self.dims[-1] <= MAX_SCALARS
        if few and reads_strided(self.group):
            return {"inner": "unrolled"}
        return {"inner": "parts" if self.has_edges else "vector"}

    def others(self) -> list[dict[str, Parameter]]:
        """Written out where the axis is short, vectors where they are not thought best."""
        words = ["vector", "parts"] if self.has_edges else []
        words += ["shuffled", "vector"] if self.may_shuffle else []
        if len(self.dims) > 1 and self.dims[-1] <= MAX_UNROLLED:
            words += ["vector", "unrolled"]
        return [{"inner": word} for word in dict.fromkeys(words)]

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require repeated rows, edges or a short innermost axis where `inner` depends on them."""
        if schedule.word("inner") == "shuffled":
            return "" if self.may_shuffle else "inner must be vector, as no row is repeated"
        if schedule.word("inner") == "parts":
            return "" if self.has_edges else "inner must be vector, as the loop has no edges"
        if schedule.word("inner") == "vector":
            return ""
        if len(self.dims) < 2:
            return "inner must be vector, as there is one axis"
        return f"inner must be vector, as {self.dims[-1]} elements are too many" * (
            self.dims[-1] > MAX_UNROLLED
        )


class TransposeSpace(PointwiseSpace):
    """Ops that read along another axis than they write: in register tiles where they are one permutation, else in
    blocks of what they write that stay in cache."""

    meanings: Mapping[str, str] = {
        **PointwiseSpace.meanings,
        "inner": "tiles transposed in registers, vector or unrolled: how the innermost axis is run through",
        "block": "elements of the innermost axis before the next one along which is read; rows of tiles",
    }
    choices = {"inner": ("vector", "unrolled", "tiles")}

    def __init__(
        self, algorithm: str, group: KernelGroup, elements: int, ctx: LowerContext
    ) -> None:
        super().__init__(algorithm, group, elements, ctx)
        self.may_split = False
        self.tiles = transpose_tiles_of(group, ctx.target)
        # A block has an element even where the axis has none.
        self.whole = max(self.dims[-1], 1) if self.dims else 1

    def inner(self) -> dict[str, Parameter]:
        """The whole axis, or a few elements where the lines it is read from would leave L1 before the next row.

        Lines a power of two apart share few sets, so that a quarter of L1 is too much already: a transpose of
        1024 x 1024 takes a fifth of the time in blocks of 16.
        """
        if self.tiles:
            return {"inner": "tiles", "block": self.tiles.best_rows}
        found = super().inner()
        if found["inner"] == "unrolled" or self.whole * self.line_bytes <= self.l1_bytes // 4:
            return found | {"block": self.whole}
        is_strided = len(self.dims) > 1 and reads_strided(self.group)
        return found | {"block": BLOCKS[0] if is_strided else self.whole}

    def others(self) -> list[dict[str, Parameter]]:
        """Blocks of a few cache lines."""
        found = [{**one, "block": self.whole} for one in super().others()]
        if self.tiles:
            sizes = (*BLOCKS, self.tiles.rows)
            found += [{"inner": "tiles", "block": x} for x in sizes if x <= self.tiles.rows]
        for size in (*BLOCKS, self.whole):
            if size <= self.whole:
                found.append({"inner": "vector", "block": size})
        return found

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require existing blocks of an axis; tiles only for a permutation."""
        if schedule.word("inner") == "tiles" and not self.tiles:
            return "inner must be vector, as this is more than a permutation of axes"
        if schedule.word("inner") == "tiles":
            rows = self.tiles.rows if self.tiles else 0
            return f"block must be at most {rows} rows" * (schedule.number("block") > rows)
        if schedule.number("block") > self.whole:
            return f"block must be at most {self.whole}"
        if schedule.word("inner") == "unrolled" and schedule.number("block") != self.whole:
            return f"block must be all {self.whole} with inner=unrolled"
        return super().invalid_reason(schedule)


class ReductionSpace(LoopSpace):
    """Schedules of a reduction: the vector axis is the last one of the result, or that of the terms.

    Along the result, each vector of it reads from as many rows as there are terms, or a block of columns at once stays
    in L1 and rows are read one after the other.
    """

    meanings: Mapping[str, str] = TASKS | {
        "vector": "result or terms, the axis that vectors lie along; columns: result, in blocks that stay in L1"
    }
    words = ("vector",)
    choices = {"vector": ("result", "terms", "columns")}

    def __init__(
        self, algorithm: str, group: KernelGroup, elements: Size, ctx: LowerContext
    ) -> None:
        super().__init__(algorithm, group, elements, ctx)
        self.lanes = ctx.target.lanes(group.outputs[0].details.dtype.accumulator)
        self.may_block = ctx.options.enabled("column-blocks") and self._is_known()

    def _is_known(self) -> bool:
        tensors = (*self.group.inputs, *self.group.outputs)
        return bool(self.dims) and all(is_known(*x.details.physical_dims) for x in tensors)

    def inner(self) -> dict[str, Parameter]:
        """The last axis of the result where some operand is contiguous along it."""
        if not (self.dims and walks_result(self.group)):
            return {"vector": "terms"}
        is_wide = self.may_block and self.dims[-1] >= self.lanes
        return {"vector": "columns" if is_wide else "result"}

    def others(self) -> list[dict[str, Parameter]]:
        """All that there are."""
        words = self.choices["vector"] if self.may_block else self.choices["vector"][:2]
        return [{"vector": word} for word in words] if self.dims else []

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require a result with axes for `result`, and blocks that are on for `columns`."""
        word = schedule.word("vector")
        if word != "terms" and not self.dims:
            return "vector must be terms, as the result is a scalar"
        return "vector must be terms or result, as sizes are dynamic or blocks turned off" * (
            word == "columns" and not self.may_block
        )


EXPENSIVE = frozenset(
    ["exp", "expm1", "log", "log1p", "tanh", "erf", "sigmoid", "pow", "div", "sqrt", "rsqrt"]
)
"""Ops whose recomputation costs more than a store and a load."""


class RowSpace(LoopSpace):
    """Schedules of row groups: expensive values that several loops read are stored or recomputed; number of
    interleaved rows."""

    meanings: Mapping[str, str] = TASKS | {
        "values": "kept (in local rows), result (kept where the result will be) or recomputed: exponentials and the "
        "like that several loops of a row read",
        "block": "interleaved rows, so that their reductions do not wait for each other",
    }
    words = ("values",)
    choices = {"values": ("kept", "result", "recomputed")}

    def __init__(
        self, algorithm: str, group: KernelGroup, elements: Size, ctx: LowerContext
    ) -> None:
        super().__init__(algorithm, group, elements, ctx)
        first = next(op for op in group.ops if combines(op)).inputs[0].details
        self.may_block = ctx.options.enabled("row-blocks")
        *rows, columns = first.plain_dims
        self.row_bytes = first.dtype.accumulator.size * columns if is_known(columns) else 0
        self.rows = rows[-1] if rows and is_known(*rows) and is_known(columns) else 1
        self.target = ctx.target
        self.kept = self._expensive_rows()

    def _expensive_rows(self) -> list[GraphTensor]:
        """Values as long as a row, other than the result, that cost more to compute again than to store."""
        output = self.group.outputs[0]
        found = [x for op in self.group.ops if op.op_name in EXPENSIVE for x in op.outputs]
        dims = output.details.plain_dims
        return [x for x in found if x.details.plain_dims == dims and x is not output]

    @cached_property
    def max_rows(self) -> int:
        """Rows of input, output and values kept that share half of L1."""
        fit = self.l1_bytes // 2 // max(3 * self.row_bytes, 1)
        return max(1, min(fit, MAX_ROWS, self.rows)) if self.may_block and self.row_bytes else 1

    def inner(self) -> dict[str, Parameter]:
        """A store and a load cost less than computing again.

        Values are kept where the result will be if they fit there: its cache lines then arrive while they are computed,
        so that softmax over 1024x1024 takes 0.85 of the time. Rows as long as half of L1 are kept nowhere else.
        """
        is_long = self.row_bytes > self.l1_bytes // 2
        in_result = self.may_block and (is_long or self._fits_result())
        return {"values": "result" if in_result else "kept", "block": self.max_rows}

    def _fits_result(self) -> bool:
        """Return whether the result has the type that the only value kept is computed in."""
        output, *others = self.group.outputs
        dtype = output.details.dtype
        return dtype == dtype.accumulator and len(self.kept) <= 1 and not others

    def others(self) -> list[dict[str, Parameter]]:
        """All of them; with nothing to keep, the words mean the same."""
        words: list[dict[str, Parameter]] = [{"values": word} for word in self.choices["values"]]
        sizes = (size for size in dict.fromkeys((1, 2, self.max_rows)) if size <= self.max_rows)
        return words * bool(self.kept) + [{"block": size} for size in sizes]

    def cycles(self, schedule: Schedule) -> float | None:
        """Return the predicted cycles of a schedule for sizes that are known."""
        if not isinstance(self.elements, int) or not self.row_bytes:
            return None
        output = self.group.outputs[0].details
        size = output.dtype.accumulator.size
        row = RowCost(
            vectors=math.ceil(self.row_bytes / size / self.target.lanes(output.dtype.accumulator)),
            reductions=sum(map(combines, self.group.ops)),
            expensive=len(self.kept),
            far_bytes=output.dtype.size * self.row_bytes // size
            if _bytes_of(self.group) > self.target.l2_bytes
            else 0,
        )
        rows = self.elements * size // self.row_bytes
        threads = min(schedule.number("tasks"), self.threads)
        words = schedule.word("values"), schedule.number("block")
        return math.ceil(rows / threads) * row.cycles(*words, self.target.machine)

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require existing blocks of rows."""
        return f"block must be at most {self.max_rows}" * (schedule.number("block") > self.max_rows)


def fetches_rows(group: KernelGroup, rows: Sequence[Size], ctx: LowerContext) -> bool:
    """Return whether `rows` are prefetched: there are several, and not all of them stay in L2."""
    several = any(size != 1 for size in rows)
    return several and ctx.options.enabled("next-rows") and _bytes_of(group) > ctx.target.l2_bytes


def _bytes_of(group: KernelGroup) -> int:
    """Bytes of what a group reads and writes, of typical sizes."""
    tensors = (*group.inputs, *group.outputs)
    return sum(typical(x.details.elements) * x.details.dtype.size for x in tensors)


def _assumed(size: Size) -> int:
    """The size that inner loops are chosen for; not a short one if it is known only when the model runs."""
    return size if isinstance(size, int) else max(typical(size), LONG)


def loop_space(group: KernelGroup, ctx: LowerContext) -> LoopSpace:
    """The space of a group of pointwise ops and reductions."""
    output = group.outputs[0]
    elements = math.prod(output.details.physical_dims)
    reductions = [op for op in group.ops if combines(op)]
    if not reductions:
        if len(group.outputs) == 1 and joined_concat(group.ops, output) is not None:
            return LoopSpace("joined", group, elements, ctx)
        if any(op.op_name in STRIDED for op in group.ops):
            return TransposeSpace("transpose", group, elements, ctx)
        return PointwiseSpace("pointwise", group, elements, ctx)
    first = reductions[0]
    rows = first.inputs[0].details.plain_dims
    if len(reductions) > 1 or (output.details.plain_dims == rows and reduces_rows(first)):
        return RowSpace("rows", group, math.prod(rows), ctx)
    found = reduction(first)
    assert found is not None
    return ReductionSpace("reduction", group, elements * math.prod(found.extents), ctx)


def combines(op: Op) -> bool:
    """Return whether the op is lowered as a reduction: matmuls of types without a template are."""
    return reduction(op) is not None


def joined_concat(ops: Sequence[Op], output: GraphTensor) -> Concat | None:
    """The concat of a pointwise group (in topological order) whose parts may have a loop nest each; None for others.

    All that is computed from its result must be elementwise and of its shape, so that element i of the output comes
    from element i of it; and no axis may be padded, nor the joined one be split into blocks.
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
