"""Every variant of a model's ops: one kernel per (op, layout, blocking), with its expected result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.contraction import f32_tiles
from ..base.dtypes import F32
from ..graph_ir.inspect.compare import Difference, difference
from ..graph_ir.ir.graph import Graph, GraphTensor, Op, subgraphs_of
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.lowering.registry import get_func
from ..graph_ir.ops.compose import Composer
from ..graph_ir.ops.convolution import Convolution
from ..graph_ir.ops.matmul import MatmulCore
from ..graph_ir.passes.decompose import decompose
from ..graph_ir.passes.propagate_layouts import LayoutDecision, propagate_layouts
from ..graph_ir.schedule.blockings import (
    Blocked,
    asking,
    blocked_op,
    blocking_of,
    offered_blockings,
    predicted_cycles,
)
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.convolution_forms import ranked_forms
from ..graph_ir.schedule.format_choice import FormatChoice
from ..graph_ir.schedule.matmul_tile import MatmulBlocking
from ..graph_ir.schedule.problem import problem_of
from ..graph_ir.schedule.query_format import query_format
from ..tensor_ir.nodes import Block, Function

Array = np.ndarray[Any, Any]

EXACT = ("matmul_core", "direct_convolution")
"""Ops whose sums of small integers are exact."""
MOST_BLOCKINGS = 20
"""Blockings tried per layout: those the cost model ranks highest, and the compiler's choice."""


@dataclass(frozen=True)
class Variant:
    """One way to run one op: its kernel, its inputs (in their layouts), and the expected result (plain).

    `problem`, `asked` (the blocking) and `predicted` (cycles) are set only if the op has blockings to choose from;
    `chosen`: this is the compiler's choice.
    """

    op: str
    layout: str
    blocking: str
    function: Function
    inputs: tuple[Array, ...]
    output: LogicalTensor
    expected: Array
    exact: bool
    problem: str = ""
    predicted: float | None = None
    chosen: bool = False
    asked: MatmulBlocking | None = None

    def check(self, result: Array) -> Difference:
        """Compare the kernel's output, in its layout, with the reference."""
        plain = self.output.format.unpack(result, self.output.plain_dims)
        return difference(plain, self.expected, self.exact)


def model_variants(graph: Graph, ctx: LowerContext) -> list[Variant]:
    """All variants of the distinct ops of a model, then of products of boundary sizes if it has products."""
    seen: set[object] = set()
    variants: list[Variant] = []
    has_products = False
    for work in _scopes(graph, ctx):
        chosen = _chosen_layouts(work, ctx)
        for op in work.ops:
            key = (op.op_name, repr(op.attrs), tuple(str(x.details) for x in op.inputs))
            if op.kind not in ("source", "sink", "control") and key not in seen:
                seen.add(key)
                variants += list(op_variants(op, ctx, chosen.get(op.name)))
                has_products |= isinstance(op, MatmulCore) and op.is_tuned
    return [*variants, *(_boundary_products(ctx) if has_products else ())]


def _scopes(graph: Graph, ctx: LowerContext) -> Iterator[Graph]:
    """The graph and the subgraphs of its branches and loops, each without composite ops."""
    pending = [graph]
    while pending:
        work = pending.pop().copy()
        decompose(work, ctx)
        work.sort()
        yield work
        yield from _forms(work, ctx)
        pending += [inner for op in work.ops if op.kind == "control" for inner in subgraphs_of(op)]


def _forms(graph: Graph, ctx: LowerContext) -> Iterator[Graph]:
    """Each convolution alone, in every form that can run it: the ops it is rewritten to are verified too."""
    for op in graph.ops:
        if not isinstance(op, Convolution) or op.op_name != "convolution":
            continue
        for form, _ in ranked_forms(op, ctx):
            alone = Graph(f"{op.name} {form.name}")
            x, w = (x.producer_owner for x in op.inputs)
            image = alone.make_input(op.inputs[0].details, x.name)
            if w.op_name == "constant":
                weights = alone.make_constant(w.attr("value"), w.name)
            else:
                weights = alone.make_input(op.inputs[1].details, w.name)
            twin = alone.make("convolution", (image, weights), op.attrs, op.name)
            assert isinstance(twin, Convolution)
            alone.make_output(form.build(Composer(alone, twin), twin))
            alone.remove([twin])
            yield alone


def _chosen_layouts(graph: Graph, ctx: LowerContext) -> Mapping[str, int]:
    """The index of the format choice of each tunable op of a graph."""
    copy = graph.copy()
    propagate_layouts(copy, ctx)
    decisions: list[LayoutDecision] = copy.attrs["temp.layout_decisions"]
    return {decision.op_name: decision.chosen for decision in decisions}


def op_variants(op: Op, ctx: LowerContext, chosen: int | None = None) -> Iterator[Variant]:
    """The op alone in every format choice and blocking it offers, on integer-filled inputs.

    `chosen` is the number of the format choice that the compiler takes.
    """
    rng = np.random.default_rng(7)
    given = {x: _operand(x, rng) for x in dict.fromkeys(op.inputs)}
    arrays = [given[x] for x in op.inputs]
    (expected,) = op.reference(arrays)
    for number, choice in enumerate(query_format(op, ctx)):
        alone = _alone(op, choice)
        packed = tuple(x.details.format.pack(a) for x, a in zip(alone.inputs, arrays, strict=True))
        base = Variant(
            f"{op.op_name} {op.name}", _layout_text(choice), "-", Function("", (), Block(())),
            _distinct(alone, packed), alone.outputs[0].details, expected, op.op_name in EXACT,
        )  # fmt: skip
        blocked = blocked_op(alone)
        if blocked is None:
            yield replace(base, function=_function(alone, ctx))
            continue
        for blocking, cycles in ranked_blockings(blocked, ctx):
            yield replace(
                base,
                blocking=str(blocking),
                function=_function(alone, asking(blocked, blocking, ctx)),
                problem=problem_of(blocked),
                predicted=cycles,
                chosen=number == chosen and blocking == blocking_of(blocked, ctx),
                asked=blocking,
            )


def ranked_blockings(op: Blocked, ctx: LowerContext) -> list[tuple[MatmulBlocking, float]]:
    """The best blockings by the cost model, with their cycles; the one the compiler takes is always among them."""
    offered = [
        (blocking, predicted_cycles(op, blocking, ctx)) for blocking in offered_blockings(op, ctx)
    ]
    taken = blocking_of(op, ctx)
    ranked = sorted(offered, key=lambda pair: pair[1])
    best, others = ranked[:MOST_BLOCKINGS], ranked[MOST_BLOCKINGS:]
    return [*best, *(pair for pair in others if pair[0] == taken)]


def _function(op: Op, ctx: LowerContext) -> Function:
    (function,) = get_func(op, ctx).functions
    return function


def _alone(op: Op, choice: FormatChoice) -> Op:
    """A graph of this op only, its operands in the formats of `choice`."""
    graph = Graph("alone")
    mapping: dict[GraphTensor, GraphTensor] = {}
    for tensor, fmt in zip(op.inputs, choice.inputs, strict=True):
        if tensor not in mapping:
            mapping[tensor] = graph.make_input(tensor.details.with_format(fmt), tensor.name)
    twin = graph.make(op.op_name, [mapping[x] for x in op.inputs], op.attrs, op.name)
    for tensor, fmt in zip(twin.outputs, choice.outputs, strict=True):
        tensor.details = tensor.details.with_format(fmt)
    return twin


def _operand(tensor: GraphTensor, rng: np.random.Generator) -> Array:
    """Constants unchanged; everything else integers from -4 to 4 (0 to 4 unsigned), exact in every dtype."""
    producer = tensor.producer_owner
    if producer.op_name == "constant" and not tensor.details.dtype.is_float:
        return producer.attr("value")
    dtype = tensor.details.dtype
    low = -4 if dtype.is_signed else 0
    high = 2 if dtype.kind == "bool" else 5
    values = rng.integers(low, high, tensor.details.elements)
    first = rng.permutation(np.arange(low, high))[: values.size]
    values[: first.size] = first  # so that small tensors have values of either sign too
    return values.reshape(tensor.details.plain_dims).astype(dtype.numpy)


def _distinct(op: Op, arrays: Sequence[Array]) -> tuple[Array, ...]:
    return tuple(dict(zip(op.inputs, arrays, strict=True)).values())


def _layout_text(choice: FormatChoice) -> str:
    inputs = ",".join(str(f) or "scalar" for f in choice.inputs)
    return f"{inputs}->{','.join(str(f) or 'scalar' for f in choice.outputs)}"


def _boundary_products(ctx: LowerContext) -> Iterator[Variant]:
    """Products with sizes around the tile: the tails of every register tile of the ISA, also with A and B
    transposed."""
    for tile in f32_tiles(ctx.target):
        columns = tile.columns(ctx.target)
        for m in (1, tile.rows - 1, tile.rows + 1):
            for n, k in ((1, 5), (columns - 1, 1), (columns + 1, 7)):
                op = _product(m, n, k)
                for variant in op_variants(op, ctx):
                    if variant.blocking.startswith(f"mr{tile.rows}nv{tile.vectors} "):
                        yield replace(variant, predicted=None)
                        break
    for transposed in "ab":
        yield replace(next(op_variants(_product(7, 17, 5, transposed), ctx)), predicted=None)


def _product(m: int, n: int, k: int, transposed: str = "") -> Op:
    graph = Graph("product")
    a = (k, m) if transposed == "a" else (m, k)
    b = (n, k) if transposed == "b" else (k, n)
    operands = [
        graph.make_input(LogicalTensor(F32, dims), name) for name, dims in (("a", a), ("b", b))
    ]
    attrs = {f"transpose_{name}": True for name in transposed}
    return graph.make("matmul_core", operands, attrs, f"{m}x{n}x{k}")
