"""Turn `vector` loops into vector statements: a loop of whole vectors, then the rest of the iterations.

before   for j in vector(0, 19): c[i * 19 + j] = a[j]
after    for j_1 in range(0, 16, 8): c[i * 19 + j_1] = load(a[j_1], 8)
         store(c[i * 19 + 16], load(a[16], 4, active=3), active=3)
Accumulations into a local run on vectors of partial results (four, used in turn, in long loops), which are combined
after the loop in an order given by its extent. Functions are computed for several vectors at once (joint_vectors.py).
Requires: 1-D buffers. Ensures: no `vector` loops; one that has no vector form runs one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ...base.dtypes import BOOL, S64, DType
from ...base.records import dataclass
from ...targets.isa import Target
from .. import builder as t
from ..analysis import IndexAlgebra, key_of
from ..joint_vectors import chained_together, lanes_together
from ..names import Names
from ..nodes import (
    Allocate,
    Binary,
    Block,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Module,
    Stmt,
    Store,
    Var,
)
from ..substitution import renamed_copy
from ..vector_body import (
    LANE,
    TRIP,
    Accumulator,
    BodyVectorizer,
    Chunk,
    NotVectorizable,
    accumulation,
    identity,
)
from ..visitor import (
    Node,
    Rewriter,
    bound_names,
    children,
    map_functions,
    vars_in,
    walk,
    walk_statements,
)

COPIES = 4  # independent accumulators: an add has a latency of four cycles
MAX_SLOTS = 64  # a local of more elements is not accumulated into lane by lane


def vectorize(module: Module, target: Target) -> Module:
    """Vectorize every function."""
    return map_functions(module, lambda function: _vectorize_function(function, target))


def _vectorize_function(function: Function, target: Target) -> Function:
    if not _has_loop(function.body, "vector"):
        return function
    return _Vectorizer(target, Names(bound_names(function))).function(function)


class _Vectorizer(Rewriter):
    """Finds the innermost vector loops and collects the ranges of the loops around them."""

    def __init__(self, target: Target, names: Names) -> None:
        self.target = target
        self.names = names
        self.algebra = IndexAlgebra()

    def let(self, s: Let) -> Stmt:
        if s.var.dtype == S64 and s.var.lanes == 1:
            self.algebra.ranges[s.var.name] = self.algebra.range_of(s.value)
        return s

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        self.algebra.bind_loop(s)
        if s.kind != "vector" or s.step != 1 or _has_loop(s.body, "vector"):
            kind = "serial" if s.kind == "vector" else s.kind
            body = self.body(s.body)
            return s if body is s.body and kind == s.kind else replace(s, body=body, kind=kind)
        try:
            return tuple(_VectorLoop(s, self.target, self.algebra, self.names).statements())
        except NotVectorizable:
            return replace(s, kind="serial")
        finally:
            self.algebra.values.clear()


@dataclass
class _VectorLoop:
    """One loop on its way."""

    loop: For
    target: Target
    algebra: IndexAlgebra
    names: Names

    def statements(self) -> list[Stmt]:
        """The statements that replace the loop. NotVectorizable when it has no vector form."""
        extent = self.algebra.trips(self.loop)
        varying = _varying(self.loop)
        lanes = self.target.lanes(_widest(self.loop, varying))
        if extent is not None:
            lanes = min(lanes, _power_of_two(extent))
        if lanes < 2:
            raise NotVectorizable("a single iteration")
        found = list(_accumulators(self.loop, varying, lanes, self.names))
        least = lanes
        if extent is not None and not found and _is_jammed(self.loop, extent, lanes):
            lanes *= COPIES
        elif extent and not found and not _has_loop(self.loop.body):
            lanes = lanes_together(self.loop.body, self.target, lanes, extent)
        if found and extent is None and has_dynamic_bounds(self.loop):
            return self._dynamic_accumulators(found, lanes)
        is_long = found and extent is not None and extent >= COPIES * lanes
        copies = COPIES if is_long and not _has_loop(self.loop.body) else 1
        found = [_with_copies(a, copies) for a in found]
        self.accumulators = {a.buffer.name: a for a in found}
        before = [s for a in found for s in _start(a, copies)]
        after = [s for a in found for s in _combine(a, copies)]
        if extent is None:  # the remainder runs on the combined value
            main, rest = self._varying_extent(lanes)
            return [*before, *main, *after, *rest]
        main = self._constant_extent(extent, lanes, copies)
        return [*before, *main, *self._tail(extent, lanes, least), *after]

    def _constant_extent(self, extent: int, lanes: int, copies: int) -> list[Stmt]:
        """The whole vectors: groups of `copies`, then those left one at a time."""
        vectors = extent // lanes
        groups, single = divmod(vectors, copies)
        result = self._main_loop(groups, lanes, copies)
        for number in range(single):
            offset = (groups * copies + number) * lanes
            result.append(self._chunk(self.loop.begin + offset, offset, lanes, None, number))
        return result

    def _main_loop(self, groups: int, lanes: int, copies: int) -> list[Stmt]:
        step = lanes * copies
        if groups <= 1:
            return [self._copies(self.loop.begin, lanes, copies, (0, 1))] * groups
        var = Var(self.names.fresh(self.loop.var.name))
        end = self.loop.begin + groups * step
        self.algebra.bind_loop(For(var, self.loop.begin, end, Block(()), "serial", step))
        body = self._copies(var, lanes, copies, (step, groups))
        return [For(var, self.loop.begin, end, body, "serial", step)]

    def _copies(self, base: Expr, lanes: int, copies: int, trips: tuple[int, int]) -> Stmt:
        """Emit `copies` vectors, one after the other or, for functions, interleaved."""
        if all(a.count == 1 for a in self.accumulators.values()):
            together = min(chained_together(self.loop.body, self.target), copies)
            lanes, copies = lanes * together, copies // together
        body = [
            self._chunk(base + u * lanes, u * lanes, lanes, None, u, trips) for u in range(copies)
        ]
        return t.block_of(_spliced(body))

    def _tail(self, extent: int, lanes: int, least: int) -> list[Stmt]:
        """Emit the last iterations: halves and quarters of the interleaved vectors, then the remaining
        partial vector."""
        rest = extent % lanes
        result: list[Stmt] = []
        while lanes > least:
            lanes //= 2
            if rest >= lanes:
                base = self.loop.begin + (extent - rest)
                result.append(self._chunk(base, extent - rest, lanes, None, 0))
                rest -= lanes
        return [*result, *self._part(extent, rest, lanes)]

    def _part(self, extent: int, rest: int, lanes: int) -> list[Stmt]:
        """The last `rest` iterations, fewer than a vector."""
        if not rest:
            return []
        offset = extent - rest
        base = self.loop.begin + offset
        if not self.accumulators:
            lanes = _power_of_two(rest)
        if lanes == 1:
            return [renamed_copy(self.loop.body, self.names, {self.loop.var.name: base})]
        return [self._chunk(base, offset, lanes, rest if rest < lanes else None, 0)]

    def _varying_extent(self, lanes: int) -> tuple[list[Stmt], list[Stmt]]:
        """(loop of whole vectors, scalar loop of the remainder) for an extent known only at run time."""
        s = self.loop
        before: list[Stmt] = []
        begin = self._bound("begin", s.begin, before)
        length = self.algebra.simplify(s.end - s.begin)
        low, high = self.algebra.difference(s.end, s.begin)
        if low < 0:
            length = t.maximum(length, 0)
        vectors = length // lanes
        end = self._bound("whole", begin + vectors * lanes, before)
        var = Var(self.names.fresh(s.var.name))
        self.algebra.ranges[var.name] = self.algebra.ranges[s.var.name]
        body = self._chunk(var, 0, lanes, None, 0, (lanes, max(1, high // lanes)))
        main = [*before, For(var, begin, end, body, "serial", lanes)]
        if self.algebra.is_multiple(s.end - s.begin, lanes):
            return main, []
        rest = Var(self.names.fresh(s.var.name))
        copy = renamed_copy(s.body, self.names, {s.var.name: rest})
        return main, [For(rest, end, s.end, copy)]

    def _dynamic_accumulators(self, found: list[Accumulator], lanes: int) -> list[Stmt]:
        """The loop with sums over an extent that is known at run time: in the order that the same extent, as a number,
        would have. The rest goes into the lanes of the first copy one at a time."""
        s = self.loop
        copies = 1 if _has_loop(s.body) else COPIES
        found = [_with_copies(a, copies) for a in found]
        self.accumulators = {a.buffer.name: a for a in found}
        steps: list[Stmt] = [one for a in found for one in _start(a, copies)]
        begin = self._bound("begin", s.begin, steps)
        extent = s.end - s.begin
        ends = [extent // size * size for size in (lanes * copies, lanes)]
        grouped, whole = (
            self._bound(name, begin + end, steps)
            for name, end in zip(("grouped", "whole"), ends, strict=True)
        )
        trips = (lanes, max(1, self.algebra.difference(s.end, s.begin)[1] // lanes))
        steps.append(self._chunks(begin, grouped, lanes, copies, trips))
        if copies > 1:
            few = self._chunks(begin, whole, lanes, 1, trips)
            starts = [grouped + number * lanes for number in range(copies - 1)]
            rest = [
                If(at < whole, self._chunk(at, 0, lanes, None, number, trips))
                for number, at in enumerate(starts)
            ]
            steps.append(If(grouped > begin, Block(tuple(rest)), few))
        last = Var(self.names.fresh(s.var.name))
        body = renamed_copy(s.body, self.names, {s.var.name: last})
        by_lane = _ByLane(self.accumulators, last - whole)
        steps.append(For(last, whole, s.end, by_lane.body(body)))
        return [*steps, *(one for a in found for one in _combine(a, copies))]

    def _chunks(
        self, begin: Expr, end: Expr, lanes: int, copies: int, trips: tuple[int, int]
    ) -> Stmt:
        """Groups of vectors, one for each copy of the accumulators."""
        var = Var(self.names.fresh(self.loop.var.name))
        self.algebra.ranges[var.name] = self.algebra.ranges[self.loop.var.name]
        body = self._copies(var, lanes, copies, trips)
        return For(var, begin, end, body, "serial", lanes * copies)

    def _bound(self, name: str, value: Expr, into: list[Stmt]) -> Expr:
        """`value`, bound to a name unless it is one already."""
        value = self.algebra.simplify(value)
        if isinstance(value, Var | Const):
            return value
        var = Var(self.names.fresh(f"{self.loop.var.name}_{name}"))
        self.algebra.ranges[var.name] = self.algebra.range_of(value)
        into.append(Let(var, value))
        return var

    def _chunk(
        self,
        base: Expr,
        offset: int,
        lanes: int,
        active: int | None,
        copy: int,
        steps: tuple[int, int] = (0, 1),
    ) -> Stmt:
        """The body for iterations base .. base + lanes: the loop's begin + offset + step * trip number."""
        step, trips = steps
        model = self.loop.begin + Var(LANE) + (Var(TRIP) * step + offset)
        ranges = {LANE: (0, (active or lanes) - 1), TRIP: (0, trips - 1)}
        chunk = Chunk(self.loop.var, base, lanes, active, model, ranges, copy)
        line = self.target.machine.cache_line
        body = BodyVectorizer(chunk, self.algebra, self.names, self.accumulators, line)
        return body.stmt(self.loop.body)


class _ByLane(Rewriter):
    """Accumulates what one iteration adds into one lane of the first copy of its accumulators."""

    def __init__(self, accumulators: Mapping[str, Accumulator], lane: Expr) -> None:
        self._accumulators = accumulators
        self._lane = lane

    def load(self, e: Load) -> Expr:
        found = self._accumulators.get(e.buffer.name)
        if found is None:
            return super().load(e)
        return Load(found.lanes_buffer, (found.index(e.indices[0]) + self._lane,))

    def store(self, s: Store) -> Stmt | tuple[Stmt, ...]:
        found = self._accumulators.get(s.buffer.name)
        if found is None:
            return super().store(s)
        index = found.index(s.indices[0]) + self._lane
        return Store(found.lanes_buffer, (index,), self.expr(s.value))


def has_dynamic_bounds(loop: For) -> bool:
    """Return whether the number of iterations is a size that is known at run time."""
    names = [*vars_in(loop.begin), *vars_in(loop.end)]
    return bool(names) and all(name.startswith(t.SIZE_PREFIX) for name in names)


def _spliced(statements: list[Stmt]) -> Iterator[Stmt]:
    for s in statements:
        if isinstance(s, Block):
            yield from s.body
        else:
            yield s


def _power_of_two(at_least: int) -> int:
    return 1 << max(0, at_least - 1).bit_length()


def _is_jammed(loop: For, extent: int, lanes: int) -> bool:
    """Return whether loops inside run for several vectors at once: chains of their own, and longer runs of memory."""
    return (
        extent % (COPIES * lanes) == 0
        and _has_loop(loop.body)
        and not any(type(n) is Call for n in walk(loop.body))
    )


def _has_loop(body: Stmt, kind: str = "") -> bool:
    """Return whether there is a loop inside, of one kind or of any."""
    return any(type(s) is For and kind in ("", s.kind) for s in walk_statements(body))


def _widest(loop: For, varying: set[str]) -> DType:
    """The widest type of the data a loop works on; indices do not count, nor what all iterations load, 16-bit floats
    count as f32."""
    widest = BOOL
    stack: list[Node] = [loop.body]
    while stack:
        node = stack.pop()
        if isinstance(node, (Load, Store)):
            if isinstance(node, Store):
                stack.append(node.value)
            elif all(varying.isdisjoint(vars_in(i)) for i in node.indices):
                continue
            dtype = node.buffer.dtype.accumulator
        else:
            stack.extend(children(node))
            if not (isinstance(node, Cast) or (isinstance(node, Call) and node.dtype.is_float)):
                continue
            dtype = node.dtype.accumulator
        widest = max(widest, dtype, key=lambda d: d.bits)
    return widest


# --- accumulations -------------------------------------------------------------------------------------------------


def _accumulators(loop: For, varying: set[str], lanes: int, names: Names) -> Iterator[Accumulator]:
    """The locals from outside the loop that its body accumulates into."""
    inside = {s.buffer.name for s in walk_statements(loop.body) if isinstance(s, Allocate)}
    updates: dict[str, list[Store]] = {}
    for s in walk_statements(loop.body):
        if (
            isinstance(s, Store)
            and s.buffer.name not in inside
            and varying.isdisjoint(vars_in(s.indices[0]))
        ):
            updates.setdefault(s.buffer.name, []).append(s)
    for name, stores in updates.items():
        _check_accumulation(loop, name, stores)
        yield _accumulator(loop, stores, lanes, names)


def _varying(loop: For) -> set[str]:
    """Names that depend on the loop variable."""
    varying = {loop.var.name}
    for s in walk_statements(loop.body):
        if type(s) is Let and not varying.isdisjoint(vars_in(s.value)):
            varying.add(s.var.name)
    return varying


def _check_accumulation(loop: For, name: str, stores: list[Store]) -> None:
    """NotVectorizable unless the body only accumulates into the buffer, by one operator."""
    ops = {found[0] if (found := accumulation(s)) else None for s in stores}
    uses = sum(isinstance(n, Load | Store) and n.buffer.name == name for n in walk(loop.body))
    if (
        None in ops
        or len(ops) > 1
        or uses != 2 * len(stores)
        or stores[0].buffer.storage != "local"
    ):
        raise NotVectorizable(f"'{name}' carries a value from iteration to iteration")


def _accumulator(loop: For, stores: list[Store], lanes: int, names: Names) -> Accumulator:
    buffer = stores[0].buffer
    inner = set(bound_names(loop.body))
    slots: tuple[Expr, ...] | None = None
    if all(inner.isdisjoint(vars_in(s.indices[0])) for s in stores):
        slots = tuple({key_of(s.indices[0]): s.indices[0] for s in stores}.values())
    elif buffer.elements > MAX_SLOTS:
        raise NotVectorizable(f"'{buffer.name}' has too many elements to accumulate into")
    found = accumulation(stores[0])
    assert found is not None
    lanes_buffer = Buffer(names.fresh(f"{buffer.name}_lanes"), buffer.dtype, (0,), "local")
    return Accumulator(buffer, found[0], slots, lanes_buffer, lanes)


def _with_copies(a: Accumulator, copies: int) -> Accumulator:
    return replace(a, lanes_buffer=replace(a.lanes_buffer, shape=(copies * a.count * a.lanes,)))


def _slots(a: Accumulator) -> tuple[Expr, ...]:
    return tuple(t.as_expr(i) for i in range(a.count)) if a.slots is None else a.slots


def _start(a: Accumulator, copies: int) -> Iterator[Stmt]:
    """Every lane starts with the identity of the operator."""
    yield Allocate(a.lanes_buffer)
    for copy in range(copies):
        for slot in _slots(a):
            start = Broadcast(identity(a.op, a.buffer.dtype), a.lanes)
            yield Store(a.lanes_buffer, (a.index(slot, copy),), start)


def _combine(a: Accumulator, copies: int) -> Iterator[Stmt]:
    """The copies in pairs, then the lanes, then the old element."""
    for slot in _slots(a):
        partial: list[Expr] = [
            Load(a.lanes_buffer, (a.index(slot, copy),), a.lanes) for copy in range(copies)
        ]
        while len(partial) > 1:
            partial = [Binary(a.op, partial[i], partial[i + 1]) for i in range(0, len(partial), 2)]
        total = Call(f"reduce_{a.op}", (partial[0],), a.buffer.dtype)
        yield Store(a.buffer, (slot,), Binary(a.op, Load(a.buffer, (slot,)), total))
