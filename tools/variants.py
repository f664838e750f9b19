"""Every way an op of a model can run: one kernel per (op, layout, schedule), with what it must compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..base.dims import symbols_of
from ..base.dtypes import F32, S32
from ..base.records import dataclass
from ..graph_ir.inspect.compare import Difference, difference
from ..graph_ir.inspect.experts import expert_operands, sorted_experts
from ..graph_ir.ir.format import Format
from ..graph_ir.ir.graph import Graph, GraphTensor, Op, all_ops, subgraphs_of
from ..graph_ir.ir.logical_tensor import LogicalTensor, known
from ..graph_ir.ir.schedule import Schedule
from ..graph_ir.lowering.registry import LOWERINGS, get_func
from ..graph_ir.ops.compose import Composer
from ..graph_ir.ops.contraction_types import is_byte
from ..graph_ir.ops.convolution import Convolution
from ..graph_ir.ops.dynamic_sizes import Count, TrueIndices
from ..graph_ir.ops.fused import call_kernel
from ..graph_ir.ops.matmul import MatmulCore
from ..graph_ir.ops.matmul_nbits import MatmulNBits
from ..graph_ir.ops.top_k import SortRows
from ..graph_ir.passes import pipeline
from ..graph_ir.passes.decompose import decompose
from ..graph_ir.passes.fold_constants import fold_constants
from ..graph_ir.passes.multiply_quantized import multiply_quantized
from ..graph_ir.passes.narrow_integer_matmuls import narrow_integer_matmuls
from ..graph_ir.passes.propagate_layouts import LAYOUT_DECISIONS, propagate_layouts
from ..graph_ir.passes.remove_dead import remove_dead
from ..graph_ir.rewriting.groups import is_view
from ..graph_ir.rewriting.kernel_group import group_of
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.convolution_forms import ranked_forms
from ..graph_ir.schedule.format_choice import FormatChoice
from ..graph_ir.schedule.loops import LoopSpace
from ..graph_ir.schedule.query_format import query_format
from ..graph_ir.schedule.space import ScheduleSpace
from ..graph_ir.schedule.spaces import pick_schedule, space_of
from ..graph_ir.schedule.user_code import kernels_for
from ..targets.isa import GemmTile
from ..targets.microkernels import f32_tiles
from ..tensor_ir.nodes import Block, Function
from .submodel import node_graph

Array = np.ndarray[Any, Any]

EXACT = ("matmul_core", "matmul_nbits", "direct_convolution")
"""Ops whose sums of small integers are exact."""
MAX_SCHEDULES = 20
"""Number of schedules tried per layout: those the cost model ranks highest, and the one the compiler takes."""

FUSED_ALGORITHMS = ("attention", "rows", "transpose", "reduction")
"""Algorithms of fused kernels that are verified as a whole, besides their ops."""

LOOPS_TO_TRY = ("rows", "reduction", "transpose")
"""Loop generators of which other schedules are tried."""


@dataclass(frozen=True)
class Variant:
    """One way to run one op: its kernel, its inputs (in their layouts), and the expected results (plain).

    `problem`, `schedule` and `predicted` (cycles, where there is a model) only where the op has schedules to choose
    from; `chosen`: the compiler takes this one. `timed`: its time is worth knowing, as there are others.
    `image`: the layout of the first operand. `sizes`: numbers for the sizes that the function takes, by name.
    """

    op: str
    layout: str
    function: Function
    inputs: tuple[Array, ...]
    outputs: tuple[LogicalTensor, ...]
    expected: tuple[Array, ...]
    exact: bool
    problem: str = ""
    predicted: float | None = None
    chosen: bool = False
    schedule: Schedule | None = None
    timed: bool = False
    image: Format | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def check(self, results: Sequence[Array]) -> Difference:
        """Compare the kernel's outputs, in their layouts, with the reference: the worst of them."""
        found = [
            difference(y.format.unpack(result, y.plain_dims), expected, self.exact)
            for y, result, expected in zip(self.outputs, results, self.expected, strict=True)
        ]
        return max(found, key=lambda one: (not one.ok, one.relative))


def model_variants(
    graph: Graph, ctx: LowerContext, sizes: Mapping[str, int] = MappingProxyType({})
) -> list[Variant]:
    """All variants of the distinct ops of a model, of its fused attention and row panels, and of matmuls of boundary
    sizes if it has matmuls.

    `sizes`: numbers for those of dynamic dimensions, by name: kernels for all sizes run at these.
    """
    seen: set[object] = set()
    variants: list[Variant] = []
    has_contractions = False
    sizes = with_counts(graph, sizes)
    for call in _kernel_calls(graph, ctx):
        variants += op_variants(call, ctx, sizes=sizes)
    for work in _scopes(graph, ctx):
        chosen = _chosen_layouts(work, ctx)
        for op in work.ops:
            key = (op.op_name, repr(op.attrs), tuple(str(x.details) for x in op.inputs))
            if op.kind in ("source", "sink", "control") or isinstance(op, (Count, TrueIndices)):
                continue
            if _runs_by_kernel_only(op, ctx):
                continue
            if key not in seen:
                seen.add(key)
                variants += list(op_variants(op, ctx, chosen.get(op.name), sizes=sizes))
                has_contractions |= isinstance(op, MatmulCore) and op.is_tuned
    fused = [v for op in fused_kernels(graph, ctx) for v in kernel_variants(op, ctx, sizes=sizes)]
    return [*variants, *fused, *(_boundary_matmuls(ctx) if has_contractions else ())]


def fused_kernels(graph: Graph, ctx: LowerContext) -> list[Op]:
    """The attention and row panels that fusion makes of a model, its matmuls with packed weights, what makes bytes of
    sums, and its row sorts, each problem once."""
    return [
        op
        for op, space in model_kernels(graph, ctx)
        if (op.kind == "fused" and space.algorithm in FUSED_ALGORITHMS)
        or _multiplies_words(op)
        or isinstance(op, SortRows)
        or _multiplies_bytes(op)
    ]


def _multiplies_bytes(op: Op) -> bool:
    """Return whether a kernel requantizes a matmul of bytes in forms that only whole kernels have: weights in 16 bits
    or f32, accumulators that start with their bias, several vectors packed together."""
    types = [[x.details.dtype for x in side] for side in (op.inputs, op.outputs)]
    is_tuned = any(part.kind == "tunable" for part in group_of(op).ops)
    return is_tuned and all(any(map(is_byte, side)) for side in types)


def _multiplies_words(op: Op) -> bool:
    """Return whether a kernel multiplies packed weights, whose zero point may be a number in its code."""
    return any(isinstance(part, MatmulNBits) for part in group_of(op).ops)


def model_kernels(graph: Graph, ctx: LowerContext) -> list[tuple[Op, ScheduleSpace]]:
    """Return the kernels of a compiled model with their spaces, each problem once, the largest first."""
    work = graph.copy()
    pipeline.run(work, ctx)
    found: dict[str, tuple[Op, ScheduleSpace]] = {}
    pending = [work]
    while pending:
        for op in pending.pop().ops:
            space = None if is_view(op) else space_of(op, ctx)
            if space is not None:
                found.setdefault(space.problem, (op, space))
            pending += subgraphs_of(op) if op.kind == "control" else []
    return sorted(found.values(), key=lambda pair: -pair[0].get_gflop())


def _kernel_calls(graph: Graph, ctx: LowerContext) -> Iterator[Op]:
    """Calls of all kernels of user code that accept an op of the graph, of its subgraphs, or of what is in them."""
    pending = [graph]
    while pending:
        work, parts = pending[-1].copy(), pending.pop().copy()
        decompose(parts, ctx)
        known = {op.name for op in work.ops}
        for scope in (work, parts):
            for op in list(scope.ops):
                if scope is work or op.name not in known:
                    for kernel in kernels_for(op, ctx):
                        yield call_kernel(scope, op, kernel.name).producer_owner
        pending += [inner for op in work.ops if op.kind == "control" for inner in subgraphs_of(op)]


def _runs_by_kernel_only(op: Op, ctx: LowerContext) -> bool:
    """Return whether nothing but kernels of user code can run an op, as one does."""
    return LOWERINGS.find(op) is None and bool(kernels_for(op, ctx))


def _scopes(graph: Graph, ctx: LowerContext) -> Iterator[Graph]:
    """Return the graph and the subgraphs of its branches and loops, with integer matmuls and no composite ops."""
    pending = [graph]
    while pending:
        work = pending.pop().copy()
        if ctx.options.enabled("quantized"):
            multiply_quantized(work, ctx)
        decompose(work, ctx)
        if ctx.options.enabled("simplify"):
            narrow_integer_matmuls(work, ctx)
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
            if w.is_constant:
                weights = alone.make_constant(w.attr("value"), w.name)
            else:
                weights = alone.make_input(op.inputs[1].details, w.name)
            twin = alone.make("convolution", (image, weights), op.attrs, op.name)
            assert isinstance(twin, Convolution)
            alone.make_output(form.build(Composer(alone, twin), twin))
            alone.remove([twin])
            # Transformed weights are those of some weights, or no result can be divided.
            if twin.dtype == S32:
                fold_constants(alone, ctx)
                remove_dead(alone, ctx)
            yield alone


def _chosen_layouts(graph: Graph, ctx: LowerContext) -> Mapping[str, int]:
    """The index of the format choice of each tunable op of a graph."""
    copy = graph.copy()
    propagate_layouts(copy, ctx)
    return {decision.op_name: decision.chosen for decision in LAYOUT_DECISIONS.of(copy)}


def with_counts(graph: Graph, sizes: Mapping[str, int]) -> dict[str, int]:
    """Sizes, and the largest of those that a run counts; in branches and loops one between the least and that, as the
    largest may be what the last round leaves."""
    found, own = dict(sizes), set(graph.counted)
    for op in all_ops(graph):
        if isinstance(op, Count):
            for symbol in symbols_of([op.limit]):
                found.setdefault(symbol.name, symbol.typical)
            most = int(known(op.limit, found))
            found[op.symbol.name] = most if op in own else (op.symbol.least + most) // 2
    return found


def op_variants(
    op: Op,
    ctx: LowerContext,
    chosen: int | None = None,
    choices: Sequence[FormatChoice] | None = None,
    swept: bool = False,
    sizes: Mapping[str, int] = MappingProxyType({}),
) -> Iterator[Variant]:
    """The op alone in every format choice and under every schedule it offers, on integer-filled inputs.

    `chosen` is the number of the format choice that the compiler takes; `choices`: others than it offers; `swept`: with
    the schedules that are tried where there is time to measure.
    """
    rng = np.random.default_rng(7)
    given = {x: _operand(x, rng, sizes) for x in dict.fromkeys(op.inputs)}
    exact = op.op_name in EXACT or op.outputs[0].details.dtype == S32
    for number, choice in enumerate(choices or query_format(op, ctx)):
        yield from _in_layouts(op, choice, given, exact, ctx, number == chosen, swept, sizes)


def _in_layouts(
    op: Op, choice: FormatChoice, given: Mapping[GraphTensor, Array], exact: bool, ctx: LowerContext,
    chosen: bool, swept: bool, sizes: Mapping[str, int],
) -> Iterator[Variant]:  # fmt: skip
    """Variants of an op on `given` operands, in the layouts of a choice, under each schedule it offers."""
    alone = op_alone(op, choice)
    expected = tuple(op_alone(op, sizes=sizes).reference([given[x] for x in op.inputs]))
    packed = (
        x.details.format.pack(a)
        for x, a in zip(dict.fromkeys(alone.inputs), given.values(), strict=True)
    )
    base = Variant(
        f"{op.op_name} {op.name}", _layout_text(choice), Function("", (), Block(())), tuple(packed),
        tuple(known(y.details, sizes) for y in alone.outputs), expected, exact,
        image=choice.inputs[0] if choice.inputs else None, sizes=sizes,
    )  # fmt: skip
    yield from _under_each_schedule(alone, base, ctx, chosen, swept)


def _under_each_schedule(
    op: Op, base: Variant, ctx: LowerContext, chosen: bool, swept: bool = False
) -> Iterator[Variant]:
    """Variants of an op in the layouts it has; `chosen`: the compiler takes these layouts."""
    space = space_of(op, ctx)
    if space is None:
        yield replace(base, function=_function(op, ctx))
        return
    pick = pick_schedule(space, ctx)
    offered = swept_schedules(space) if swept else ranked_schedules(op, space, ctx)
    timed = len(offered) > 1 or not isinstance(space, LoopSpace)
    for schedule, cycles in offered:
        op.schedule = schedule
        function = _function(op, ctx)
        is_chosen = chosen and timed and schedule == pick
        yield replace(
            base, function=function, problem=space.problem, predicted=cycles, chosen=is_chosen,
            schedule=schedule, timed=timed,
        )  # fmt: skip


def ranked_schedules(
    op: Op, space: ScheduleSpace, ctx: LowerContext
) -> list[tuple[Schedule, float | None]]:
    """The best schedules by the cost model, with their cycles; the one the compiler takes is always among them."""
    taken = pick_schedule(space, ctx)
    if isinstance(space, LoopSpace) and space.algorithm not in LOOPS_TO_TRY:
        return [(taken, None)]
    offered = [
        (schedule, space.cycles(schedule)) for schedule in dict.fromkeys([*space.candidates, taken])
    ]
    ranked = sorted(offered, key=lambda pair: pair[1] or 0.0)
    best, others = ranked[:MAX_SCHEDULES], ranked[MAX_SCHEDULES:]
    return [*best, *(pair for pair in others if pair[0] == taken)]


def swept_schedules(space: ScheduleSpace) -> list[tuple[Schedule, float | None]]:
    """Every schedule that measuring may find to be the best, with its predicted cycles."""
    return [(schedule, space.cycles(schedule)) for schedule in dict.fromkeys(space.swept())]


def kernel_variants(
    op: Op, ctx: LowerContext, swept: bool = False, sizes: Mapping[str, int] = MappingProxyType({})
) -> Iterator[Variant]:
    """Return variants of a kernel of a compiled model, in its layouts, under each schedule it offers."""
    rng = np.random.default_rng(7)
    of_bytes, of_words = _multiplies_bytes(op), _multiplies_words(op)
    operand = _own_operand if of_bytes else _operand
    given = {x: operand(x, rng, sizes) for x in dict.fromkeys(op.inputs)}
    if of_words:
        given |= {x: x.producer_owner.attr("value") for x in given if x.is_constant}
    if swept:  # which is timed: rows of a few experts in any order would take other paths
        given |= _sorted_rows(op, given)
    yield from _in_layouts(op, _formats(op), given, of_bytes, ctx, True, swept, sizes)


def _sorted_rows(op: Op, given: Mapping[GraphTensor, Array]) -> dict[GraphTensor, Array]:
    """Return the operands that name an expert for each row, sorted by expert as in models."""
    graph = node_graph(op)
    inside = {y: x for one, x in zip(graph.inputs, given, strict=True) for y in one.outputs}
    found = {inside[y]: count for y, count in expert_operands(graph).items() if y in inside}
    return {x: sorted_experts(len(given[x]), count) for x, count in found.items()}


def _function(op: Op, ctx: LowerContext) -> Function:
    (function,) = get_func(op, ctx).functions
    return function


def _formats(op: Op) -> FormatChoice:
    """Return the formats that an op supports."""
    inputs, outputs = (tuple(x.details.format for x in side) for side in (op.inputs, op.outputs))
    return FormatChoice(inputs, outputs)


def op_alone(
    op: Op, choice: FormatChoice | None = None, sizes: Mapping[str, int] = MappingProxyType({})
) -> Op:
    """Return the op alone in a graph, its operands in the formats of `choice` or in those it has, with numbers for
    dynamic `sizes`, if given."""
    choice = choice or _formats(op)
    graph = Graph("alone")
    mapping: dict[GraphTensor, GraphTensor] = {}
    for tensor, fmt in zip(op.inputs, choice.inputs, strict=True):
        if tensor not in mapping:
            details = known(tensor.details, sizes).with_format(fmt)
            mapping[tensor] = graph.make_input(details, tensor.name)
    attrs = {key: known(value, sizes) for key, value in op.attrs.items()}
    twin = graph.make(op.op_name, [mapping[x] for x in op.inputs], attrs, op.name)
    for tensor, fmt in zip(twin.outputs, choice.outputs, strict=True):
        tensor.details = tensor.details.with_format(fmt)
    return twin


def _operand(tensor: GraphTensor, rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
    """Constants unchanged; everything else integers from -4 to 4 (0 to 4 unsigned), exact in every dtype."""
    producer = tensor.producer_owner
    if producer.is_constant and not tensor.details.dtype.is_float:
        return producer.attr("value")
    details = known(tensor.details, sizes)
    dtype = details.dtype
    low = -4 if dtype.is_signed else 0
    high = 2 if dtype.kind == "bool" else 5
    values = rng.integers(low, high, details.elements)
    first = rng.permutation(np.arange(low, high))[: values.size]
    values[: first.size] = first  # so that small tensors have values of either sign too
    return values.reshape(details.plain_dims).astype(dtype.numpy)


def _own_operand(tensor: GraphTensor, rng: np.random.Generator, sizes: Mapping[str, int]) -> Array:
    """Constants unchanged, scales too; bytes of any value, everything else as `_operand`."""
    producer, dtype = tensor.producer_owner, tensor.details.dtype
    if producer.is_constant:
        return producer.attr("value")
    if not is_byte(dtype):
        return _operand(tensor, rng, sizes)
    low, high = dtype.limits
    return rng.integers(low, high, known(tensor.details, sizes).plain_dims, dtype.numpy, True)


def _layout_text(choice: FormatChoice) -> str:
    inputs = ",".join(str(f) or "scalar" for f in choice.inputs)
    return f"{inputs}->{','.join(str(f) or 'scalar' for f in choice.outputs)}"


def _boundary_matmuls(ctx: LowerContext) -> Iterator[Variant]:
    """Return matmuls with sizes around the tile: the tails of every register tile of the ISA, also with A and
    B transposed."""
    for tile in f32_tiles(ctx.target):
        columns = tile.columns(ctx.target)
        for m in (1, tile.rows - 1, tile.rows + 1):
            for n, k in ((1, 5), (columns - 1, 1), (columns + 1, 7)):
                op = _matmul(m, n, k)
                for variant in op_variants(op, ctx):
                    if _runs_in(variant, tile):
                        yield replace(variant, timed=False)
                        break
    for transposed in "ab":
        yield replace(next(op_variants(_matmul(7, 17, 5, transposed), ctx)), timed=False)


def _runs_in(variant: Variant, tile: GemmTile) -> bool:
    settings = variant.schedule.settings if variant.schedule else {}
    return (settings.get("mr"), settings.get("nv")) == (tile.rows, tile.vectors)


def _matmul(m: int, n: int, k: int, transposed: str = "") -> Op:
    graph = Graph("matmul")
    a = (k, m) if transposed == "a" else (m, k)
    b = (n, k) if transposed == "b" else (k, n)
    operands = [
        graph.make_input(LogicalTensor(F32, dims), name) for name, dims in (("a", a), ("b", b))
    ]
    attrs = {f"transpose_{name}": True for name in transposed}
    return graph.make("matmul_core", operands, attrs, f"{m}x{n}x{k}")
