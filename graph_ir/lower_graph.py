"""From the final graph to one Tensor IR module: a function per distinct kernel, and `main`, which calls them in order.

`main` takes the graph's inputs, its outputs, the constants section and the arena, the last two as bytes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..dtypes import U8
from ..tensor_ir import builder as t
from ..tensor_ir.nodes import Block, Buffer, Function, Invoke, Module, Slice
from .context import LowerContext
from .graph import Graph, GraphTensor, Op, attribute_tokens
from .groups import is_view, storage_root
from .passes.plan_memory import ALIGNMENT, MemoryPlan

ENTRY = "main"
_LOG = logging.getLogger("graphc.lower")


@dataclass(frozen=True)
class KernelCall:
    """One step of the program: which graph op runs as which kernel."""

    op_name: str
    kernel: str
    note: str
    gflop: float


@dataclass(frozen=True)
class LoweredModel:
    """The program of a model: module, constants section, arena size, and the calls `main` makes in order."""

    module: Module
    constants: bytes
    arena_bytes: int
    calls: tuple[KernelCall, ...]


def lower_graph(
    graph: Graph, ctx: LowerContext, on_op: Callable[[int, int], None] | None = None
) -> LoweredModel:
    """Lower every op and tie the kernels together. `on_op(done, total)` reports progress."""
    plan: MemoryPlan = graph.attrs["temp.memory_plan"]
    places = _Places(graph, plan)
    kernels = _Kernels()
    invokes: list[Invoke] = []
    calls: list[KernelCall] = []
    steps = [op for op in graph.ops if op.kind not in ("source", "sink") and not is_view(op)]
    for done, op in enumerate(steps):
        kernel = kernels.of(op, ctx)
        operands = [*dict.fromkeys(op.inputs), *op.outputs]
        invokes.append(Invoke(kernel.name, tuple(places.slice(x) for x in operands)))
        _LOG.debug("%s runs as %s: %s", op.name, kernel.name, kernel.note)
        calls.append(KernelCall(op.name, kernel.name, kernel.note, op.get_gflop()))
        if on_op:
            on_op(done + 1, len(steps))
    main = Function(ENTRY, places.params, Block(tuple(invokes)), graph.name)
    module = Module((*kernels.functions, main), ENTRY)
    return LoweredModel(module, bytes(places.constants), plan.arena_bytes, tuple(calls))


class _Kernels:
    """The distinct functions of a program: equal ones are kept once, unequal ones of one name are numbered."""

    def __init__(self) -> None:
        self.functions: list[Function] = []
        self._by_op: dict[tuple[object, ...], Function] = {}
        self._by_content: dict[Function, Function] = {}
        self._names: dict[str, int] = {}

    def of(self, op: Op, ctx: LowerContext) -> Function:
        """The function to call for an op; ops that differ in names only share it."""
        operands = list(dict.fromkeys(op.inputs))
        details = [x.details for x in (*operands, *op.outputs)]
        wires = tuple(operands.index(x) for x in op.inputs)
        key = (op.op_name, wires, *attribute_tokens(details), *attribute_tokens(op.attrs))
        if key not in self._by_op:
            self._by_op[key] = self.add(op.get_func(ctx).functions)
        return self._by_op[key]

    def add(self, functions: tuple[Function, ...]) -> Function:
        """Take in the functions an op lowered to (one, today); returns the one to call."""
        (function,) = functions
        content = replace(function, name="", note="")
        if content not in self._by_content:
            number = self._names.get(function.name, 0)
            self._names[function.name] = number + 1
            named = replace(function, name=f"{function.name}_{number}") if number else function
            self._by_content[content] = named
            self.functions.append(named)
        return self._by_content[content]


class _Places:
    """Where each tensor is: a parameter of `main`, or bytes in the constants section or the arena."""

    def __init__(self, graph: Graph, plan: MemoryPlan) -> None:
        self.constants = bytearray()
        self._plan = plan
        self._constant_offsets: dict[GraphTensor, int] = {}
        self._params: dict[GraphTensor, Buffer] = {}
        for op in graph.inputs:
            self._params[op.outputs[0]] = _param("x", len(self._params), op.outputs[0])
        for number, op in enumerate(graph.outputs):
            self._params[storage_root(op.inputs[0])] = _param("y", number, op.inputs[0])
        self._add_constants(graph)
        self._constants = Buffer("constants", U8, (len(self.constants),))
        self._arena = Buffer("arena", U8, (plan.arena_bytes,))
        self.params = (*self._params.values(), self._constants, self._arena)

    def slice(self, tensor: GraphTensor) -> Slice:
        """The address of a tensor."""
        root = storage_root(tensor)
        if root in self._params:
            buffer = self._params[root]
            return Slice(buffer, tuple(t.as_expr(0) for _ in buffer.shape))
        if root in self._constant_offsets:
            return Slice(self._constants, (t.as_expr(self._constant_offsets[root]),))
        return Slice(self._arena, (t.as_expr(self._plan.offsets[root]),))

    def _add_constants(self, graph: Graph) -> None:
        known: dict[bytes, int] = {}
        for op in graph.ops:
            if op.op_name != "constant":
                continue
            packed = op.outputs[0].details.format.pack(np.asarray(op.attrs["value"]))
            data = packed.tobytes()
            if data not in known:
                self.constants.extend(bytes(-len(self.constants) % ALIGNMENT))
                known[data] = len(self.constants)
                self.constants.extend(data)
            self._constant_offsets[op.outputs[0]] = known[data]


def _param(prefix: str, number: int, tensor: GraphTensor) -> Buffer:
    return Buffer(f"{prefix}{number}", tensor.details.dtype, tensor.details.blocking_dims)


def kernel_bytes(op: Op) -> int:
    """Bytes one run of an op must move at least: every operand once."""
    return sum(x.details.size_bytes for x in (*dict.fromkeys(op.inputs), *op.outputs))


def total_gflop(calls: tuple[KernelCall, ...]) -> float:
    """Work of one run in 1e9 operations."""
    return math.fsum(call.gflop for call in calls)
