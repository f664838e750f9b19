"""A model compiled so that each of its nodes can be run alone, on memory that can be inspected.

It is the fused program with two differences: `main` runs the one step that `select` names, and the arena is an
argument. No node overwrites its own input, so that it can be run repeatedly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.aligned_memory import aligned_empty
from ..base.dims import Size, evaluate
from ..base.dtypes import S64, U8
from ..base.errors import InternalError
from ..base.size_limits import at_most
from ..base.size_queries import lone_symbol
from ..codegen.aot import compile_to_object
from ..codegen.module import emit_module
from ..driver.artifact import input_specs, output_specs, support_object
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ..graph_ir.lowering.lower_graph import LoweredModel, graph_symbols, lower_graph
from ..graph_ir.ops.dynamic_sizes import Count, largest_counts
from ..graph_ir.passes import pipeline as graph_pipeline
from ..graph_ir.passes.plan_memory import MEMORY_PLAN
from ..graph_ir.rewriting.groups import is_view
from ..graph_ir.rewriting.known_sizes import with_sizes
from ..graph_ir.schedule.context import LowerContext
from ..runtime.artifact import Artifact
from ..runtime.executor import CompiledModel
from ..runtime.metadata import Metadata, TensorSpec
from ..runtime.sizes import call_sizes
from ..tensor_ir import builder as t
from ..tensor_ir import pipeline as loop_pipeline
from ..tensor_ir.nodes import Block, Buffer, Expr, Function, If, Invoke, Let, Module, Slice, Stmt
from ..tensor_ir.sizes import shape_of
from ..tensor_ir.without_tiles import uses_tiles

SELECT, ARENA = "graphc.select", "graphc.arena"


class NodeProgram:
    """The nodes of a model as native code, and the memory they work on.

    `graph` is the optimized graph: a copy of `source` if that is `optimized` already. A tensor's value is valid from
    the run of its node until a later node reuses the memory: read it right after. Dynamic dimensions have the sizes of
    the inputs that are bound, and those that a run with them counts: from then on `graph` and `nodes` are those of
    these sizes, while the code is for all.
    """

    def __init__(self, source: Graph, ctx: LowerContext, optimized: bool = False) -> None:
        disabled = ctx.options.disabled | {"in-place"}
        self.ctx = replace(ctx, options=replace(ctx.options, disabled=disabled))
        self.source = source
        self.graph = source.copy()
        if not optimized:
            graph_pipeline.run(self.graph, self.ctx)
        self.graph.make_counts()  # a count must outlive the step that makes it, which is a separate call
        self.lowered = lower_graph(self.graph, self.ctx)
        self._open = self.graph
        self._offsets = {
            tensor.name: offset for tensor, offset in MEMORY_PLAN.of(self.graph).offsets.items()
        }
        self._views = {op.name for op in self.graph.ops if is_view(op)}
        self.sizes: dict[str, int] = {}
        self._rooms = {symbol.name: symbol.typical for symbol in self.graph.rooms}
        self.kernels = {call.op_name: call for call in self.lowered.calls}
        self._steps = {call.op_name: i for i, call in enumerate(self.lowered.calls)}
        self._model = CompiledModel(
            _artifact(self.graph, self.lowered, self.ctx), ctx.options.threads
        )
        self._select = np.zeros(1, np.int64)
        self._arena = np.empty(0, np.uint8)
        self.inputs = self._model.inputs[:-2]
        self.outputs = self._model.outputs
        self._memory: dict[GraphTensor, Array] = {}
        self._call: Callable[[], int] | None = None

    def bind(self, arrays: Mapping[str, Any]) -> None:
        """Use these input arrays (by name) from now on. Raise UserError if they do not fit."""
        values = {
            name: np.require(array, requirements=["C", "A"]) for name, array in arrays.items()
        }
        results = self._bind_at(values)
        if self._open.counted:
            while self._fix_counts(results):
                results = self._bind_at(values)
        self._memory = {
            op.outputs[0]: np.asarray(values[spec.name])
            for op, spec in zip(self.graph.inputs, self.inputs, strict=True)
        }
        self._memory.update(
            (self.root(op.inputs[0]), array)
            for op, array in zip(self.graph.outputs, results, strict=True)
        )

    def _bind_at(self, values: Mapping[str, Any]) -> list[Array]:
        """Bind these inputs; the arrays of the results."""
        self._fix_sizes(values)
        self._model.make_room(self._rooms)
        results = [np.zeros(spec.at(self.sizes).shape, spec.dtype.numpy) for spec in self.outputs]
        own = {SELECT: self._select, ARENA: self._arena}
        self._call = self._model.bind({**values, **own}, results)
        return results

    def _fix_counts(self, results: Sequence[Array]) -> bool:
        """Run all nodes, and take over the sizes that they count; whether there must be more room for one of them."""
        for node in self.nodes:
            run = self.step(node)
            if run is not None:
                run()
        outputs = [op.inputs[0].producer_owner for op in self._open.outputs]
        counted = {
            op.symbol.name: int(array[0])
            for op, array in zip(outputs, results, strict=True)
            if isinstance(op, Count)
        }
        for op in (op for op in self._open.counted if isinstance(op, Count)):
            room = lone_symbol(op.limit) if op.unlimited else None
            if room and counted[op.symbol.name] > self._rooms[room.name]:
                self._rooms[room.name] = counted[op.symbol.name]
                return True
        self.graph = self._open.at_sizes({**self.sizes, **counted})
        return False

    @property
    def nodes(self) -> list[Op]:
        """The ops that compute something, in order."""
        return [op for op in self.graph.ops if op.kind not in ("source", "sink")]

    def _fix_sizes(self, arrays: Mapping[str, Any]) -> None:
        """Take over the sizes of these inputs. Raise UserError if they do not fit."""
        metadata = replace(self._model.artifact.metadata, inputs=self.inputs)
        sizes = {**call_sizes(metadata, arrays), **self._rooms} if metadata.sizes else {}
        if sizes != self.sizes or not self._arena.size:
            self.sizes = sizes
            self.graph = with_sizes(self._open, sizes) if sizes else self._open
            count = evaluate(self.lowered.arena_bytes, sizes)
            self._arena = aligned_empty((count,), np.dtype(np.uint8))

    def step(self, node: Op) -> Callable[[], int] | None:
        """The native call that runs a node; None where no code runs for it (a view)."""
        if self._call is None:
            raise InternalError("a node program must be bound to inputs before it runs")
        if node.name not in self._steps:
            return None
        self._select[0] = self._steps[node.name]
        return self._call

    def run(self, node: Op) -> tuple[list[Array], list[Array]]:
        """Run a node; return the values that it reads, each once, and those that it makes."""
        inputs = [self.value(x) for x in dict.fromkeys(node.inputs)]
        call = self.step(node)
        if call is not None:
            call()
        return inputs, [self.value(y) for y in node.outputs]

    def value(self, tensor: GraphTensor) -> Array:
        """A copy of a tensor's current value, in its plain shape."""
        details, root = tensor.details, self.root(tensor)
        if root.is_constant:
            packed = root.details.format.pack(root.producer_owner.attr("value"))
        elif root in self._memory:
            packed = self._memory[root].reshape(-1)[: math.prod(root.details.physical_dims)]
        else:
            offset = self.offset(root) or 0
            data = self._arena[offset : offset + root.details.size_bytes]
            packed = data.view(root.details.dtype.numpy)
        laid_out = np.ascontiguousarray(packed).reshape(details.physical_dims)
        return np.array(details.format.unpack(laid_out, details.plain_dims))

    def root(self, tensor: GraphTensor) -> GraphTensor:
        """The tensor that owns a tensor's memory: its layout may differ from that of a view for sizes of 1."""
        while tensor.producer_owner.name in self._views:
            tensor = tensor.producer_owner.inputs[0]
        return tensor

    def offset(self, root: GraphTensor) -> int | None:
        """Return the offset in the arena, in bytes, of a tensor that is not a view; None if it is elsewhere."""
        found = self._offsets.get(root.name)
        return None if found is None else evaluate(found, self.sizes)

    def close(self) -> None:
        """Release the code."""
        self._model.close()


def select_step(module: Module, arena_bytes: Size, inputs: int) -> Module:
    """`main` with two more inputs: the number of the step to run, and the arena."""
    main = module.function(module.entry)
    *others, old_arena = (p for p in main.params if isinstance(p, Buffer))
    select = Buffer(f"x{inputs}", S64, (1,))
    arena = Buffer(f"x{inputs + 1}", U8, shape_of((arena_bytes,)))
    none = Buffer("arena", U8, (0,))
    sizes = main.params[len(others) + 1 :]
    params = (*others[:inputs], select, arena, *others[inputs:], none, *sizes)

    def moved(arg: Slice | Expr) -> Slice | Expr:
        own = isinstance(arg, Slice) and arg.buffer == old_arena
        return replace(arg, buffer=arena) if own else arg  # type: ignore[arg-type]

    steps: list[Stmt] = [
        If(
            t.equal(t.load(select, [0]), t.as_expr(number)),
            replace(step, args=tuple(map(moved, step.args))),
        )
        for number, step in enumerate(one for one in main.body.body if isinstance(one, Invoke))
    ]
    # What an earlier step has counted is in the memory of an output.
    counts = (one for one in main.body.body if isinstance(one, Let))
    selected = Function(main.name, params, Block((*counts, *steps)), main.note)
    return Module((*(f for f in module.functions if f is not main), selected), module.entry)


def _artifact(graph: Graph, lowered: LoweredModel, ctx: LowerContext) -> Artifact:
    inputs, most = input_specs(graph), largest_counts(graph)
    outputs = tuple(
        replace(spec, shape=tuple(at_most(one, most) for one in spec.shape))
        for spec in output_specs(graph)
    )
    own = (TensorSpec(SELECT, S64, (1,)), TensorSpec(ARENA, U8, (lowered.arena_bytes,)))
    module = select_step(lowered.module, lowered.arena_bytes, len(inputs))
    llvm_ir = emit_module(loop_pipeline.run(module, ctx.target), ctx.target)
    sizes = graph_symbols(graph)
    rooms = tuple(symbol.name for symbol in graph.rooms)
    metadata = Metadata(
        graph.name,
        (*inputs, *own),
        outputs,
        0,
        ctx.target.isa,
        sizes=sizes,
        rooms=rooms,
        uses_tiles=any(map(uses_tiles, module.functions)),
    )
    return Artifact(
        metadata, lowered.constants, compile_to_object(llvm_ir, ctx.target), support_object()
    )
