"""Evaluate ops whose inputs are known at compile time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ...base.dims import is_known
from ...base.errors import InternalError
from ...base.mapped_file import release, spilled
from ...base.size_queries import typically_less
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.logical_tensor import LogicalTensor
from ..ops.elementwise import Elementwise
from ..ops.reduce import Reduce
from ..ops.winograd import WinogradWeights
from ..rewriting.decisions import record
from ..schedule.context import LowerContext

Evaluate = Callable[[Op, Sequence[Array]], list[Array]]

GROWTH_BYTES = 1 << 20
"""A result above this is folded only if it is not larger than its inputs: a broadcast scalar is better
left implicit."""

SOURCE = "temp.source"
"""The attribute of transformed weights that holds the weights and the matrix of the transform, () for none."""

MIN_SOURCE_BYTES = 1 << 16
"""Transformed weights that are smaller are stored as they are."""

PREPACKS = ("reorder", "winograd_weights")
"""Ops that prepare weights for a template and so may enlarge them."""


def _reference(op: Op, arrays: Sequence[Array]) -> list[Array]:
    with np.errstate(all="ignore"):
        return op.reference(list(arrays))


def fold_constants(graph: Graph, ctx: LowerContext, evaluate: Evaluate = _reference) -> bool:
    """Replace ops whose inputs are all constant by their value, in the layout of the op's output.

    %a = constant; %b = constant; %c = add(%a, %b); %d = mul(%x, %c)
    ->
    %c = constant; %d = mul(%x, %c)

    A broadcast read only by elementwise ops is kept, for `simplify_movement` to remove. Loops are not evaluated, as
    they may be long or infinite: `simplify_control` unrolls the short ones.

    Requires: topological order. Ensures: topological order; any op left that reads only constants is a dequantize, or
    would grow them by more than `GROWTH_BYTES`.
    """
    known = _Known(graph, evaluate)
    sources: dict[int, Array] = {}
    folded = []
    for op in list(graph.ops):
        if op.kind in ("source", "sink", "control") or _is_dynamic(op):
            continue
        if not all(map(known.has, op.inputs)):
            continue
        if _is_implicit(op) or _is_only_reduced(op):
            known.passing[id(op.outputs[0])] = op
            continue
        if not _worth_folding(op, known.passing):
            continue
        arrays = [known.value_of(x) for x in op.inputs]
        results = evaluate(op, arrays)
        made: list[str] = []
        for tensor, value in zip(op.outputs, results, strict=True):
            array = _checked(op, tensor.details, np.asarray(value))
            constant = graph.make_constant(array, f"{tensor.name}.folded", tensor.details.format)
            known.values[id(constant)] = array
            _keep_source(op, arrays, constant.producer_owner, sources)
            made.append(constant.name)
            tensor.replace_uses(constant)
        for array in arrays:
            release(array)
        folded.append(op)
        record(graph, "folded", [op.name], made, f"{op.op_name} reads constants only")
    _mark_sources(graph, sources)
    graph.remove(folded)
    if folded:
        graph.sort()
    return bool(folded)


def _keep_source(op: Op, arrays: Sequence[Array], made: Op, sources: dict[int, Array]) -> None:
    """Record on transformed weights what they were made of, so that an artifact stores the weights once.

    `sources`: by the identity of weights, their copy on disk; `_Known` keeps the weights themselves meanwhile.
    """
    if isinstance(op, WinogradWeights) and made.outputs[0].details.size_bytes >= MIN_SOURCE_BYTES:
        matrix = tuple(tuple(map(float, row)) for row in op.form.weight_matrix())
        weights = sources.setdefault(id(arrays[0]), spilled(arrays[0]))
        made.attrs[SOURCE] = weights, matrix
    elif op.op_name == "reorder" and SOURCE in op.inputs[0].producer_owner.attrs:
        made.attrs[SOURCE] = op.inputs[0].producer_owner.attrs[SOURCE]


def _mark_sources(graph: Graph, sources: Mapping[int, Array]) -> None:
    """Record on weights, in whatever layout, that transformed ones were made of them."""
    for op in graph.ops if sources else ():
        if op.is_constant and id(op.attr("value")) in sources:
            op.attrs.setdefault(SOURCE, (sources[id(op.attr("value"))], ()))


class _Known:
    """The values of tensors by their identity; those of ops that are `passing` are computed if a consumer is folded."""

    def __init__(self, graph: Graph, evaluate: Evaluate) -> None:
        self.values = {id(op.outputs[0]): op.reference([])[0] for op in graph.ops if op.is_constant}
        self.passing: dict[int, Op] = {}
        self._evaluate = evaluate

    def has(self, x: GraphTensor) -> bool:
        """Return whether the value of a tensor is known."""
        return id(x) in self.values or id(x) in self.passing

    def value_of(self, x: GraphTensor) -> Array:
        """The value of a tensor that is known."""
        if id(x) not in self.values:
            op = self.passing[id(x)]
            self.values[id(x)] = self._evaluate(op, [self.value_of(y) for y in op.inputs])[0]
        return self.values[id(x)]


def _is_dynamic(op: Op) -> bool:
    """Return whether the value depends on sizes that are known at run time."""
    sizes = [x for value in op.attrs.values() if isinstance(value, tuple) for x in value]
    return not is_known(*sizes) or not all(y.details.is_known for y in op.outputs)


def _worth_folding(op: Op, passing: Mapping[int, Op]) -> bool:
    """Return whether the value of an op is not much larger than what is stored of its inputs."""
    if op.op_name in PREPACKS:
        return True
    if op.op_name == "dequantize":
        return False  # `multiply_quantized` takes its integers, `dequantize_constants` the rest
    stored = {
        id(x): x.details.size_bytes
        for y in op.inputs
        for x in (passing[id(y)].inputs if id(y) in passing else [y])
    }
    before = sum(stored.values())
    after = sum(y.details.size_bytes for y in op.outputs)
    return after <= max(before, GROWTH_BYTES)


def _is_implicit(op: Op) -> bool:
    """Return whether all consumers of a broadcast broadcast their inputs themselves."""
    if op.op_name != "broadcast":
        return False
    x, y = op.inputs[0].details, op.outputs[0].details
    return typically_less(x.elements, y.elements) and all(
        isinstance(user, Elementwise) for _, user in op.outputs[0].uses
    )


def _is_only_reduced(op: Op) -> bool:
    """Return whether a constant is only widened to be reduced: the sums of the columns of a matrix of bytes."""
    users = [user for _, user in op.outputs[0].uses]
    return op.op_name == "cast" and bool(users) and all(isinstance(u, Reduce) for u in users)


def _checked(op: Op, details: LogicalTensor, value: Array) -> Array:
    if value.shape != details.plain_dims or value.dtype != details.dtype.numpy:
        got = f"{value.dtype}{list(value.shape)}"
        raise InternalError(
            f"{op.op_name} '{op.name}': the reference must give {details}, got {got}"
        )
    return value
