"""Row-wise loops for groups with reductions over the last axis and their consumers (softmax, layer norm).

    for each block of rows (parallel):
      for each reduction, in order: for each row: one vector loop over the row, then its scalars that depend on it
      for each row: one vector loop that writes the output row

A reduction is a chain of instructions that wait for each other; in a block of rows, the next row's does not. A value
needed by several of these loops is recomputed in each, or, if it is expensive (an exponential), kept by the first: in
the output row, or in local rows where its type is another. So a softmax reads its input twice from cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...base.dims import is_known
from ...base.dtypes import DType
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Function,
    Let,
    Load,
    Prefetch,
    Slice,
    Stmt,
    Store,
    Var,
)
from ..ir.computation import Index, Read
from ..ir.graph import GraphTensor, Op
from ..ir.group_values import GroupValues, index_in, narrow
from ..schedule.loops import EXPENSIVE
from .loops import Tasks, loop_nest, reduction_of

MAX_FIRST = 2.0**100
"""A mean is not summed relative to a first term from here up."""

Carried = Callable[[int, DType], tuple[Buffer, Index]]
"""(number of a reduction, its dtype) -> where its result for this row is stored."""


@dataclass(frozen=True)
class RowGroup:
    """Ops in order, `dims` of the tensors that span whole rows, the reductions among the ops, and the result.

    `keeps`: whether expensive values that several loops need wait in memory: in local rows if `keeps_local`.
    `block`: number of interleaved rows. `has_fma`: quotients may be multiplications, corrected. `fetches`: the loop of
    an expensive value prefetches the next rows.
    """

    ops: tuple[Op, ...]
    dims: tuple[int, ...]
    reductions: tuple[Op, ...]
    output: GraphTensor
    keeps: bool = True
    keeps_local: bool = True
    block: int = 1
    has_fma: bool = False
    fetches: bool = False

    def spans_row(self, tensor: GraphTensor) -> bool:
        """Return whether a tensor has an element per column (others have one per row)."""
        dims = tensor.details.plain_dims
        return dims == self.dims and (
            dims[-1] not in (0, 1) or tensor.producer_owner not in self.reductions
        )

    def is_per_row(self, op: Op) -> bool:
        """Return whether an op's result is one value per row. Other tensors that do not span a row are read
        where needed."""
        tensor = op.outputs[0]
        if self.spans_row(tensor):
            return False
        return tensor.details.plain_dims == (*self.dims[:-1], 1) or op in self.dependent()

    def dependent(self) -> set[Op]:
        """The reductions and all ops of the group that depend on them."""
        found: set[Op] = set()
        for op in self.ops:
            if op in self.reductions or any(x.producer_owner in found for x in op.inputs):
                found.add(op)
        return found

    def stages(self) -> list[GraphTensor]:
        """The results of each loop over the row: the reductions, then the output if it spans rows."""
        last = [self.output] if self.spans_row(self.output) else []
        return [*(op.outputs[0] for op in self.reductions), *last]

    def reads(self, stage: GraphTensor) -> set[GraphTensor]:
        """The row-spanning tensors of the group that a stage's loop needs, looking through pointwise ops."""
        inside = set(self.ops)
        found: set[GraphTensor] = set()
        work = list(stage.producer_owner.inputs)
        while work:
            tensor = work.pop()
            producer = tensor.producer_owner
            if tensor in found or producer not in inside or not self.spans_row(tensor):
                continue
            found.add(tensor)
            work.extend(producer.inputs)
        return found

    def kept(self) -> list[GraphTensor]:
        """Row-spanning tensors that get a local row: expensive, and needed by several loops."""
        if not self.keeps:
            return []
        needs = [self.reads(stage) for stage in self.stages()]
        return [
            op.outputs[0]
            for op in self.ops
            if op.op_name in EXPENSIVE and sum(op.outputs[0] in need for need in needs) > 1
        ]


def row_panel_loops(
    name: str, buffers: Mapping[GraphTensor, Buffer], group: RowGroup, tasks: Tasks, note: str
) -> Function:
    """The function of a row group; params are `buffers` in order."""
    outer = tuple(Var(f"i{axis}") for axis in range(len(group.dims) - 1))
    result = buffers[group.output]
    in_memory = {x: b for x, b in buffers.items() if x is not group.output}
    emitter = RowEmitter(group, outer, in_memory, {}, result, lambda index: index)
    if group.block > 1:
        nest = _blocks_of_rows(emitter, tasks)
    else:
        nest = loop_nest(outer, group.dims[:-1], Block(tuple(emitter.row())), False, tasks)
    return Function(name, tuple(buffers.values()), Block((nest,)), note)


def _blocks_of_rows(emitter: RowEmitter, tasks: Tasks) -> Stmt:
    """Loops over blocks of rows, in which each part of a row's work runs for all rows before the next part."""
    group, outer = emitter.group, emitter.outer
    row, number = outer[-1], Var("rows")
    assert isinstance(row, Var)
    size, count = group.dims[-2], group.block
    begin = number * count
    end: Expr = begin + count
    if size % count:
        end = t.minimum(end, size)
    emitter.rows = Rows(count, row - begin)
    carried: dict[int, Buffer] = {}

    def carry(stage: int, dtype: DType) -> tuple[Buffer, Index]:
        local = Buffer(f"row_values{stage}", dtype, (count,), "local")
        return carried.setdefault(stage, local), (row - begin,)

    parts = emitter.phases(carry)
    loops = [For(row, begin, end, Block(tuple(part))) for part in parts]
    locals_ = [Allocate(b) for b in (*carried.values(), *emitter.locals)]
    names = (*(x for x in outer[:-1] if isinstance(x, Var)), number)
    dims = (*group.dims[:-2], -(-size // count))
    return loop_nest(names, dims, Block((*locals_, *loops)), False, tasks)


@dataclass(frozen=True)
class Rows:
    """A block of `count` rows, of which the current one is number `row`."""

    count: int
    row: Expr


class RowEmitter:
    """Statements of the row at plain index `outer`.

    Inputs are in memory or `given` by the enclosing nest; the output is stored to `result` at `result_index(its
    plain index)`.
    """

    def __init__(
        self,
        group: RowGroup,
        outer: Index,
        in_memory: Mapping[GraphTensor, Buffer],
        given: Mapping[GraphTensor, Read],
        result: Buffer,
        result_index: Callable[[Index], Index],
    ) -> None:
        self.group = group
        self.outer = outer
        self.in_memory = in_memory
        self.given = dict(given)
        self.result = result
        self.result_index = result_index
        self.body: list[Stmt] = []
        self.scalars: set[GraphTensor] = set()
        self.rows: Rows | None = None
        self.locals: list[Buffer] = []
        self.fetches = group.fetches

    def row(self) -> list[Stmt]:
        """Locals, a loop per stage with the row's scalars between them."""
        (body,) = self._phases(None)
        return body

    def phases(self, carried: Carried) -> list[list[Stmt]]:
        """The statements of `row`, split after each reduction, so that each part runs for many rows before the next.

        A reduction is a chain of dependent instructions, and the rest of its row waits for its end; the same part
        of other rows does not. Results of reductions are passed between parts in memory. A row with local rows is
        one part.
        """
        return self._phases(carried)

    def _phases(self, carried: Carried | None) -> list[list[Stmt]]:
        output = self.group.output
        waiting = self._kept_in()
        locals_ = [local.buffer for local in waiting.values() if local.buffer.storage == "local"]
        own = [b for b in locals_ if b is not self.result]
        if self.rows:
            self.locals, own = own, []
        self.body += [Allocate(b) for b in own]
        done: list[list[Stmt]] = []
        stages = self.group.stages()
        for number, stage in enumerate(stages):
            self._scalars()
            if stage in self.given:
                continue  # the output, already written by a loop that needed it
            needs = self.group.reads(stage)
            keep = {x: waiting.pop(x) for x in list(waiting) if x in needs}
            if stage.producer_owner in self.group.reductions:
                self._reduce(number, stage, keep)
            else:
                self._write(number, stage)
            for tensor, local in keep.items():
                self.given[tensor] = local.read
            is_reduction = stage.producer_owner in self.group.reductions
            if carried and not own and is_reduction and number + 1 < len(stages):
                done.append(
                    self._end_phase(stage, *carried(number, stage.details.dtype.accumulator))
                )
        self._scalars()
        if not self.group.spans_row(output):
            index = self._index(output, t.as_expr(0))
            value = narrow(self.scalar(output), output.details.dtype)
            self.body.append(Store(self.result, self.result_index(index), value))
        return [*done, self.body]

    def _end_phase(self, stage: GraphTensor, buffer: Buffer, result_index: Index) -> list[Stmt]:
        """Store a reduction's result, and discard values computed from it: the next part recomputes them."""
        done = [*self.body, Store(buffer, result_index, self.scalar(stage))]
        for tensor in self.scalars:
            del self.given[tensor]
        self.scalars.clear()
        self.body = []
        self.given[stage] = lambda index: Load(buffer, result_index)
        return done

    def scalar(self, tensor: GraphTensor) -> Expr:
        """The value of a per-row tensor, once `row` has made the row's statements."""
        return self.given[tensor](self._index(tensor, t.as_expr(0)))

    def _kept_in(self) -> dict[GraphTensor, _Kept]:
        """The buffer in which the first loop stores a tensor that several loops need: a local row, or the
        output itself."""
        columns = self.group.dims[-1]
        output = self.group.output
        needed = any(output in self.group.reads(stage) for stage in self.group.stages())
        if not is_known(columns) or not self.group.keeps_local:
            kept = {} if needed else self._kept_in_result()
        else:
            kept = {
                x: self._kept_row(f"row{i}", x.details.dtype.accumulator)
                for i, x in enumerate(self.group.kept())
            }
        if needed and self.result.dtype == output.details.dtype.accumulator:
            kept[output] = _Kept(self.result, self.result_index)
        return kept

    def _kept_row(self, name: str, dtype: DType) -> _Kept:
        """A local row, or one for each row of the block."""
        columns, rows = self.group.dims[-1], self.rows
        if rows is None:
            return _Kept(Buffer(name, dtype, (columns,), "local"), _last)
        local = Buffer(name, dtype, (rows.count, columns), "local")
        return _Kept(local, lambda index: (rows.row, index[-1]))

    def _kept_in_result(self) -> dict[GraphTensor, _Kept]:
        """Return `_kept_in` for long rows and for those of a dynamic size, for which there is no local: the first
        tensor of the result's type waits where the result will be, the others are computed again."""
        dtype = self.result.dtype
        fits = [x for x in self.group.kept() if x.details.dtype.accumulator == dtype]
        spans = self.group.spans_row(self.group.output)
        return {fits[0]: _Kept(self.result, self.result_index)} if fits and spans else {}

    def _index(self, tensor: GraphTensor, column: Expr) -> Index:
        """The plain index of a group tensor at this row; a per-row tensor has no column axis or one of size 1."""
        rank = tensor.details.rank
        if self.group.spans_row(tensor):
            return (*self.outer, column)
        return (*self.outer, t.as_expr(0)) if rank == len(self.group.dims) else self.outer

    def _scalars(self) -> None:
        """Bind every per-row value that is computable now and not yet bound."""
        for op in self.group.ops:
            tensor = op.outputs[0]
            if tensor in self.given or op in self.group.reductions or not self.group.is_per_row(op):
                continue
            inside = [x for x in op.inputs if x.producer_owner in self.group.ops]
            if all(x in self.given for x in inside):
                values = GroupValues(self.in_memory, self.given, f"r{len(self.given)}")
                value = values.read(tensor)(self._index(tensor, t.as_expr(0)))
                self.body += values.lets
                self.given[tensor] = _constant(value)
                self.scalars.add(tensor)

    def _reduce(self, number: int, stage: GraphTensor, keep: Mapping[GraphTensor, _Kept]) -> None:
        op, reduction = stage.producer_owner, reduction_of(stage)
        column = Var(f"c{number}")
        values = GroupValues(self.in_memory, self.given, f"s{number}")
        inputs = [values.read(x) for x in op.inputs]
        value = values.bind(
            reduction.element(inputs, self._index(stage, t.as_expr(0)), (column,)), "term"
        )
        first = self._first_term(number, stage)
        if first is not None:
            value = value - first
        stores: list[Stmt] = []
        for tensor, kept in keep.items():
            index = self._index(tensor, column)
            stores.append(Store(kept.buffer, kept.result_index(index), values.read(tensor)(index)))
        acc = Buffer(f"acc{number}", value.dtype, (1,), "local")
        here = (t.as_expr(0),)
        update = Store(acc, here, t.binary(reduction.combine, Load(acc, here), value))
        self.body += [Allocate(acc), Store(acc, here, Const(reduction.identity, value.dtype))]
        self._loop(column, [*self._next_rows(stage, column), *values.lets, *stores, update])
        finished = reduction.finish(Load(acc, here))
        if first is not None:
            finished = first + finished
        var = Var(f"reduced{number}", finished.dtype)
        self.body.append(Let(var, finished))
        self.given[stage] = _constant(var)

    def _first_term(self, number: int, stage: GraphTensor) -> Expr | None:
        """The first term of a mean that is subtracted from its terms: it is summed relative to that.

        Terms far from 0 but near each other lose nothing then. Where they are not near, the first would have been a
        term of the sum, and so large a term rounds it as much. One so large that differences overflow counts as 0.
        """
        op = stage.producer_owner
        centers = any(u.op_name == "sub" and u.inputs[0] is op.inputs[0] for _, u in stage.uses)
        if not (op.op_name == "reduce_mean" and centers and self.group.dims[-1]):
            return None
        values = GroupValues(self.in_memory, self.given, f"f{number}")
        inputs = [values.read(x) for x in op.inputs]
        index = self._index(stage, t.as_expr(0))
        term = values.bind(reduction_of(stage).element(inputs, index, (t.as_expr(0),)), "first")
        self.body += values.lets
        usable = abs(term) < t.const(MAX_FIRST, term.dtype)
        first = Var(f"from{number}", term.dtype)
        self.body.append(Let(first, t.select(usable, term, t.const(0, term.dtype))))
        return first

    def _write(self, number: int, output: GraphTensor) -> None:
        column = Var(f"c{number}")
        values = GroupValues(self.in_memory, self.given, f"s{number}")
        self._multiply_shares(values)
        index = self._index(output, column)
        value = narrow(values.read(output)(index), output.details.dtype)
        stored = Store(self.result, self.result_index(index), t.cast(value, self.result.dtype))
        self._loop(column, [*self._next_rows(output, column), *values.lets, stored])

    def _next_rows(self, stage: GraphTensor, column: Var) -> list[Stmt]:
        """Hints for the rows behind this block, in the first loop of an expensive value: it leaves memory idle.

        The next row's first loop would wait for memory, as CPUs' own prefetchers stop at the end of a page."""
        values = {stage, *self.group.reads(stage)} - self.given.keys()
        if not self.fetches or all(x.producer_owner.op_name not in EXPENSIVE for x in values):
            return []
        self.fetches = False
        *outer, row = self.outer
        index = (*outer, row + self.group.block, column)
        read = [
            (x, b) for x, b in self.in_memory.items() if x.details.plain_dims == self.group.dims
        ]
        hints: list[Stmt] = [Prefetch(Slice(b, index_in(b, x, index)), 1) for x, b in read]
        if self.group.spans_row(self.group.output):
            hints.append(Prefetch(Slice(self.result, self.result_index(index)), 0))
        return hints

    def _multiply_shares(self, values: GroupValues) -> None:
        """Divide by the sum of a softmax by multiplying by its inverse, corrected: the quotient, rounded once.

        q = a r is off by at most two units in the last place, and its remainder a - q s is exact. The sum is at least
        1, which one of its terms is, or NaN, and no term is above 1, so that none of it overflows.
        """
        for op in self.group.ops if self.group.has_fma else ():
            if not _is_share(op, self.group) or op.outputs[0] in values.given:
                continue
            total = self.scalar(op.inputs[1])
            inverse = Var(f"inverse{len(self.body)}", total.dtype)
            self.body.append(Let(inverse, 1.0 / total))
            values.given[op.outputs[0]] = _share(values.read(op.inputs[0]), total, inverse)

    def _loop(self, column: Var, body: Sequence[Stmt]) -> None:
        end = t.as_expr(self.group.dims[-1])
        self.body.append(For(column, t.as_expr(0), end, Block(tuple(body)), "vector"))


@dataclass(frozen=True)
class _Kept:
    """A row in memory: element `index` of the tensor is at `result_index(index)`."""

    buffer: Buffer
    result_index: Callable[[Index], Index]

    def read(self, index: Index) -> Expr:
        return Load(self.buffer, self.result_index(index))


def _is_share(op: Op, group: RowGroup) -> bool:
    """Return whether an op is the division of a softmax: e**(x - the largest x) by the sum of these."""
    if op.op_name != "div" or not group.spans_row(op.outputs[0]):
        return False
    power, total = op.inputs[0].producer_owner, op.inputs[1].producer_owner
    if power.op_name != "exp" or total.op_name != "reduce_sum" or not group.spans_row(op.inputs[0]):
        return False
    shifted = power.inputs[0].producer_owner
    if total.inputs[0] is not op.inputs[0] or shifted.op_name != "sub":
        return False
    largest = shifted.inputs[1].producer_owner
    known = largest.op_name == "reduce_max" and largest.inputs[0] is shifted.inputs[0]
    return known and {power, total, shifted, largest} <= set(group.ops)


def _share(read: Read, total: Expr, inverse: Expr) -> Read:
    """total's share of what is read."""

    def at(index: Index) -> Expr:
        part = read(index)
        quotient = part * inverse
        rest = t.fma(-quotient, total, part)
        return t.fma(rest, inverse, quotient)

    return at


def _last(index: Index) -> Index:
    return index[-1:]


def _constant(value: Expr) -> Read:
    return lambda index: value
