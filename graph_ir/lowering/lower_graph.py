"""Lowers the final graph to one Tensor IR module: a function per distinct kernel, and `main`, which calls them
in order.

`main` takes the graph's inputs, its outputs, the constants section and the arena, the last two as bytes. The function
of a control op's subgraph does the same; its arena is part of that of the enclosing graph.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from ...base.dims import Size, Symbol, UndecidedSize, bounds, is_known, symbols_of
from ...base.dtypes import S64, U8
from ...base.errors import InternalError
from ...base.records import dataclass
from ...base.size_limits import at_most
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    Function,
    Invoke,
    Let,
    Module,
    Slice,
    Stmt,
    Var,
)
from ...tensor_ir.sizes import shape_of
from ...tensor_ir.visitor import walk_statements
from ..ir.contents import attribute_tokens
from ..ir.graph import Array, Graph, GraphTensor, Op, subgraphs_of
from ..ir.schedule import Schedule
from ..ops.control import Case, ControlOp, While
from ..ops.dynamic_sizes import Count, largest_counts
from ..ops.movement import Slice as SliceOp
from ..passes.plan_memory import MEMORY_PLAN, control_workspace, plan_memory
from ..rewriting.groups import is_view, storage_root
from ..schedule.context import LowerContext
from .constant_section import ConstantSection
from .control import LoopParts, Surroundings, case_function, sizes_of, while_function
from .derived_constants import DerivedConstants
from .registry import get_func
from .shifted_slices import shifted

ENTRY = "main"
FEW_ALIKE = 4
_LOG = logging.getLogger("graphc.lower")


@dataclass(frozen=True)
class KernelCall:
    """One step of the program: which graph op runs as which kernel (for a control op, the function that decides)."""

    op_name: str
    kernel: str
    note: str
    gflop: float


@dataclass(frozen=True)
class LoweredModel:
    """The program of a model: module, constants section (u8), arena size, and the calls `main` makes in order.

    `offsets`: the offset of each constant of the graph in the section. `derived`: those that can be computed
    from others.
    """

    module: Module
    constants: Array
    arena_bytes: Any
    calls: tuple[KernelCall, ...]
    offsets: Mapping[GraphTensor, int] = field(default_factory=dict)
    derived: DerivedConstants = field(default_factory=DerivedConstants)


def lower_graph(
    graph: Graph,
    ctx: LowerContext,
    on_op: Callable[[int, int], None] | None = None,
    consume: bool = False,
) -> LoweredModel:
    """Lower every op and tie the kernels together. `on_op(done, total)` reports progress.

    With `consume` the graph loses its large constants to the program (`ConstantSection`). A graph without a memory
    plan, such as one that was parsed from text, is given one.
    """
    _plan(graph, ctx)
    program = _Program(graph, ctx, consume)
    main, calls = program.function(graph, ENTRY, on_op)
    module = Module((*program.kernels.functions, main), ENTRY, ctx.options.check_bounds)
    plan = MEMORY_PLAN.of(graph)
    return LoweredModel(
        module,
        program.constants.data,
        plan.arena_bytes,
        tuple(calls),
        program.constants.offsets,
        program.constants.derived,
    )


def _plan(graph: Graph, ctx: LowerContext) -> None:
    """Plan the memory of a graph and of its subgraphs, which come first, where that has not been done."""
    for op in graph.ops:
        for inner in subgraphs_of(op) if op.kind == "control" else ():
            _plan(inner, ctx)
    if not MEMORY_PLAN.is_on(graph):
        plan_memory(graph, ctx)


class _Program:
    """The state shared by the functions of one model: constants and kernels."""

    def __init__(self, graph: Graph, ctx: LowerContext, consume: bool) -> None:
        self.ctx = ctx
        self.constants = ConstantSection(graph, consume)
        self.kernels = _Kernels()

    def function(
        self, graph: Graph, name: str, on_op: Callable[[int, int], None] | None = None
    ) -> tuple[Function, list[KernelCall]]:
        """The function that runs a graph, and its calls."""
        storage = _Storage(graph, self.constants)
        invokes: list[Stmt] = [Allocate(one) for one in storage.local_counts]
        calls: list[KernelCall] = []
        needed = dict.fromkeys(x for x in storage.params if isinstance(x, Var))
        steps = [op for op in graph.ops if op.kind not in ("source", "sink") and not is_view(op)]
        for done, op in enumerate(steps):
            try:
                kernel, arguments = self._step(op, storage)
            except UndecidedSize as error:
                raise op.undecided(error) from error
            invokes.append(Invoke(kernel.name, (*arguments, *sizes_of(kernel))))
            invokes.extend(storage.counted(op))
            needed.update(dict.fromkeys(sizes_of(kernel)))
            _LOG.debug("%s runs as %s: %s", op.name, kernel.name, kernel.note)
            calls.append(KernelCall(op.name, kernel.name, kernel.note, op.get_gflop()))
            if on_op:
                on_op(done + 1, len(steps))
        for let in (one for one in invokes if isinstance(one, Let)):
            needed.pop(let.var, None)
        buffers = (x for x in storage.params if not isinstance(x, Var))
        return Function(name, (*buffers, *needed), Block(tuple(invokes)), graph.name), calls

    def _step(self, op: Op, storage: _Storage) -> tuple[Function, tuple[Slice, ...]]:
        """(the kernel an op runs as, its arguments)."""
        begin = _first_element(op) if isinstance(op, SliceOp) else None
        if begin is None:  # pieces of one shape, wherever they begin, share a kernel
            alike = shifted(op)
            kernel = self.kernels.of(alike.op, self._functions)
            return kernel, storage.arguments(op, alike.begins)
        kernel = self._copy(op.outputs[0], op.schedule)
        return kernel, (storage.slice(op.inputs[0], begin), storage.slice(op.outputs[0]))

    def _functions(self, op: Op) -> tuple[Function, ...]:
        """The function an op is lowered to; the functions of its subgraphs are added first."""
        if not isinstance(op, ControlOp):
            return get_func(op, self.ctx).functions
        around = Surroundings(self.constants.buffer, control_workspace(op))
        name = f"{op.op_name}__{self.ctx.target.isa}"
        if isinstance(op, Case):
            branches = [self._subgraph(branch, "branch") for branch in op.branches]
            return (case_function(op, branches, around, name, op.name),)
        if isinstance(op, While):
            condition, body = (
                self._subgraph(op.condition, "condition"),
                self._subgraph(op.body, "body"),
            )
            parts = LoopParts(condition, body, tuple(self._copy(y) for y in op.outputs))
            return (while_function(op, parts, around, name, op.name),)
        raise InternalError(f"{op.op_name} '{op.name}' cannot be lowered")

    def _subgraph(self, graph: Graph, role: str) -> Function:
        function, _ = self.function(graph, f"{role}__{self.ctx.target.isa}")
        return self.kernels.add((function,))

    def _copy(self, tensor: GraphTensor, schedule: Schedule | None = None) -> Function:
        """The kernel that copies a tensor."""
        graph = Graph("copy")
        source = graph.make_input(tensor.details, tensor.name)
        copy = graph.make("copy", [source], {}, f"{tensor.name}.copy")
        copy.schedule = schedule
        return self.kernels.of(copy, self._functions)


class _Kernels:
    """The distinct functions of a program: equal ones are kept once, different ones of the same name are numbered."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self._by_op: dict[tuple[object, ...], Function] = {}
        self._alike: dict[tuple[object, ...], _Alike] = {}
        self._names: dict[str, int] = {}

    def of(self, op: Op, lowered: Callable[[Op], tuple[Function, ...]]) -> Function:
        """The function to call for an op, created by `lowered`; ops that differ only in names share it."""
        operands = list(dict.fromkeys(op.inputs))
        details = [x.details for x in (*operands, *op.outputs)]
        wires = tuple(operands.index(x) for x in op.inputs)
        attributes = map(bytes, attribute_tokens([*details, op.attrs]))
        key = (op.op_name, str(op.schedule), wires, *attributes)
        if key not in self._by_op:
            self._by_op[key] = self.add(lowered(op))
        return self._by_op[key]

    def add(self, functions: tuple[Function, ...]) -> Function:
        """Add the functions an op was lowered to (currently one); return the one to call."""
        (function,) = functions
        # Compared only where these agree: to hash whole functions takes longer than to compare a few that are alike.
        outline = (function.params, *map(type, walk_statements(function.body)))
        alike = self._alike.setdefault(outline, _Alike())
        known = alike.find(function)
        if known is not None:
            return known
        number = self._names.get(function.name, 0)
        self._names[function.name] = number + 1
        named = replace(function, name=f"{function.name}_{number}") if number else function
        alike.add(named)
        self.functions.append(named)
        return named


class _Alike:
    """Functions that agree in their outline. Few are compared with each other; many are found by their hash."""

    def __init__(self) -> None:
        self._first: list[Function] = []
        self._others: dict[Stmt, Function] = {}

    def find(self, function: Function) -> Function | None:
        """The one with the same body."""
        for known in self._first:
            if known.body == function.body:
                return known
        return self._others.get(function.body) if self._others else None

    def add(self, function: Function) -> None:
        """Keep a function that is not there."""
        if len(self._first) < FEW_ALIKE:
            self._first.append(function)
        else:
            self._others[function.body] = function


class _Storage:
    """The location of each tensor: a parameter of the function, or an offset in the constants section or the arena.

    A size that is counted and no output is a local of the function.
    """

    def __init__(self, graph: Graph, constants: ConstantSection) -> None:
        self._plan = MEMORY_PLAN.of(graph)
        self._constant_offsets = constants.offsets
        self._constants = constants.buffer
        self._buffers: dict[GraphTensor, Buffer] = {}
        most = largest_counts(graph)
        for op in graph.inputs:
            self._buffers[op.outputs[0]] = _param("x", len(self._buffers), op.outputs[0], {})
        for number, op in enumerate(graph.outputs):
            self._buffers[storage_root(op.inputs[0])] = _param("y", number, op.inputs[0], most)
        self._arena = Buffer("arena", U8, shape_of((self._plan.arena_bytes,)))
        sizes = [Var(t.SIZE_PREFIX + symbol.name) for symbol in graph_symbols(graph)]
        self.params: tuple[Buffer | Var, ...] = (
            *self._buffers.values(),
            self._constants,
            self._arena,
            *sizes,
        )
        counts = [op.outputs[0] for op in graph.counted if op.outputs[0] not in self._buffers]
        self.local_counts = tuple(
            Buffer(f"count{number}", S64, (1,), "local") for number in range(len(counts))
        )
        self._buffers.update(zip(counts, self.local_counts, strict=True))

    def counted(self, op: Op) -> Iterator[Let]:
        """Yield the statements that bind a counted number, within its range, as a size for all that follows."""
        if isinstance(op, Count):
            value: Expr = self._buffers[op.outputs[0]][0]
            if op.unlimited:
                value = t.minimum(value, t.as_expr(op.limit))
            if op.symbol.most < bounds(op.limit)[1]:
                value = t.minimum(value, t.as_expr(op.symbol.most))
            if op.unlimited or op.symbol.least:
                value = t.maximum(value, t.as_expr(op.symbol.least))
            yield Let(Var(t.SIZE_PREFIX + op.symbol.name), value)

    def arguments(self, op: Op, begins: Mapping[GraphTensor, int]) -> tuple[Slice, ...]:
        """The arguments of an op's function: every operand once, inputs from an element on, and its workspace; for a
        control op all operands, constants and workspace."""
        if not isinstance(op, ControlOp):
            inputs = (self.slice(x, begins.get(x, 0)) for x in dict.fromkeys(op.inputs))
            return (*inputs, *map(self.slice, op.outputs), *self._workspace(op))
        (workspace,) = self._workspace(op)
        tensors = [self.slice(x) for x in (*op.inputs, *op.outputs)]
        return (*tensors, t.slice_of(self._constants), workspace)

    def _workspace(self, op: Op) -> Iterator[Slice]:
        """The address of each block of an op's workspace."""
        part = 0
        while (op, part) in self._plan.workspaces:
            yield t.slice_of(self._arena, (self._plan.workspaces[op, part],))
            part += 1

    def slice(self, tensor: GraphTensor, element: int = 0) -> Slice:
        """The address of a tensor, or of one of its elements, in the order of memory."""
        root = storage_root(tensor)
        if root in self._buffers:
            buffer = self._buffers[root]
            fixed = [size for size in buffer.shape if isinstance(size, int)]
            index = np.unravel_index(element, fixed) if element else [0] * len(buffer.shape)
            return Slice(buffer, tuple(t.as_expr(int(i)) for i in index))
        skipped = element * tensor.details.dtype.size
        if root in self._constant_offsets:
            return Slice(self._constants, (t.as_expr(self._constant_offsets[root] + skipped),))
        return Slice(self._arena, (t.as_expr(self._plan.offsets[root] + skipped),))


def _first_element(op: SliceOp) -> int | None:
    """Return the offset, in elements, of a slice that is contiguous in memory; None for any other."""
    (x,), (y,) = op.inputs, op.outputs
    plain = x.details.format.is_plain and y.details.format.is_plain
    dims, sizes = x.details.plain_dims, op.sizes
    if not is_known(*dims, *sizes, *op.starts):
        return None
    outer = next((axis for axis, size in enumerate(sizes) if size != 1), len(sizes))
    whole = all(
        size == dim for size, dim in zip(sizes[outer + 1 :], dims[outer + 1 :], strict=True)
    )
    if not plain or not whole or 0 in sizes:
        return None
    if any(step != 1 and size != 1 for step, size in zip(op.steps, sizes, strict=True)):
        return None
    return int(np.ravel_multi_index(op.starts, dims)) if dims else 0


def graph_symbols(graph: Graph) -> tuple[Symbol, ...]:
    """The sizes that are known when a graph runs, in the order callers pass them: those of its inputs, lengths of
    what their buffers hold, and the room for what it counts without a limit."""
    sizes = (size for op in graph.inputs for size in op.outputs[0].details.plain_dims)
    return (*symbols_of((*sizes, *graph.attrs.get("lengths", ()))), *graph.rooms)


def _param(prefix: str, number: int, tensor: GraphTensor, most: Mapping[str, Size]) -> Buffer:
    """A buffer of the caller's, with room for the largest that sizes can be which are counted."""
    shape = shape_of(at_most(one, most) for one in tensor.details.physical_dims)
    return Buffer(f"{prefix}{number}", tensor.details.dtype, shape)


def kernel_bytes(op: Op) -> int:
    """Return a lower bound on the bytes that one run of an op moves: every operand once, and of the table of a gather
    what it reads."""
    moved = {x: x.details.typical.size_bytes for x in op.inputs}
    body = op.attr("graph") if op.kind == "fused" else None
    outer = dict(zip((x.outputs[0] for x in body.inputs), op.inputs, strict=True)) if body else {}
    for inner in body.ops if body else (op,):
        if inner.op_name == "gather":
            table, read = inner.inputs[0], inner.outputs[0].details.typical.size_bytes
            table = outer.get(table, table)
            moved[table] = min(moved.get(table, read), read)
    return sum(moved.values()) + sum(y.details.typical.size_bytes for y in op.outputs)


def total_gflop(calls: tuple[KernelCall, ...]) -> float:
    """Work of one run in 1e9 operations."""
    return math.fsum(call.gflop for call in calls)
