"""Move data as the integers it is quantized to: dequantize after movement instead of before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.pool import WindowReduce
from ..ops.quantize import Dequantize, Quantize
from ..ops.window import Window
from ..rewriting.rewrite import Rule, rewrite
from ..rewriting.values import constant_values
from ..schedule.context import LowerContext

SMALLEST, LARGEST = 1e-30, 1e30
"""Scales between them neither overflow nor lose digits, so that quantizing what was dequantized gives it back."""


def sink_dequantize(graph: Graph, ctx: LowerContext) -> bool:
    """Let dequantize follow reshapes, transposes, slices, lookups, pads, concats and max pools; drop pairs that undo
    each other.

    %d = dequantize(%q, %s, %z); %t = transpose(%d); %y = quantize(%t, %s, %z)
    ->
    %y = transpose(%q)

    What is quantized after a concat is so before it.
    Requires: topological order, dequantize not decomposed, plain layouts. Scales that move are constants.
    Ensures: topological order; results are the same.
    """
    return rewrite(graph, RULES)


def _dequantize_of(tensor: GraphTensor) -> Dequantize | None:
    op = tensor.producer_owner
    return op if isinstance(op, Dequantize) else None


def _known(op: Dequantize | Quantize) -> list[Array] | None:
    """Scale and zero point, if there is one, where both are constants."""
    return constant_values(op.inputs[1:])


def _uniform(op: Dequantize) -> list[Array] | None:
    """The same where they are one for all elements, without axes."""
    known = _known(op)
    if known is None or any(value.size != 1 for value in known):
        return None
    return [value.reshape(()) for value in known]


def _pool(graph: Graph, op: Op) -> GraphTensor | None:
    """The largest of some numbers is that of the largest integer, as scales are positive."""
    source = _dequantize_of(op.inputs[0])
    parameters = None if source is None else _uniform(source)
    if source is None or parameters is None or not parameters[0] > 0:
        return None
    assert isinstance(op, WindowReduce)
    sizes = zip(op.x.details.plain_dims[2:], op.outputs[0].details.plain_dims[2:], strict=True)
    if not all(_never_empty(op.window, axis, *pair) for axis, pair in enumerate(sizes)):
        return None  # the largest of nothing is -inf, which no integer stands for
    make = Composer(graph, op)
    return _after(make, make(op.op_name, source.x, **op.attrs), parameters, source)


def _never_empty(window: Window, axis: int, size: int, results: int) -> bool:
    """Return whether every window has an element inside the image."""
    starts = np.arange(results)[:, None] * window.strides[axis] - window.before[axis]
    taps = starts + np.arange(window.kernel[axis]) * window.dilations[axis]
    return bool(np.all(np.any((taps >= 0) & (taps < size), axis=1)))


def _after(
    make: Composer, moved: GraphTensor, parameters: Sequence[Array], source: Dequantize
) -> GraphTensor:
    same = [x.details.plain_dims for x in source.inputs[1:]] == [p.shape for p in parameters]
    given = source.inputs[1:] if same else [make.constant(p) for p in parameters]
    return make("dequantize", moved, *given)


def _move(graph: Graph, op: Op) -> GraphTensor | None:
    """reshape, transpose, slice and gather of what was dequantized."""
    source = _dequantize_of(op.inputs[0])
    if source is None:
        return None
    parameters = _uniform(source) or _moved_parameters(op, source)
    if parameters is None:
        return None
    make = Composer(graph, op)
    moved = make.folded(op.op_name, source.x, *op.inputs[1:], **op.attrs)
    return _after(make, moved, parameters, source)


def _moved_parameters(op: Op, source: Dequantize) -> list[Array] | None:
    """Parameters that vary along one axis, for the axis where a transpose or reshape puts it; None if that is none."""
    known, dims = _known(source), source.x.details.plain_dims
    if known is None or op.op_name not in ("transpose", "reshape"):
        return None
    wide = [value.reshape((1,) * (len(dims) - value.ndim) + value.shape) for value in known]
    axes = {axis for value in wide for axis, size in enumerate(value.shape) if size != 1}
    if len(axes) != 1:
        return None
    (axis,) = axes
    if op.op_name == "transpose":
        moved: int | None = op.attr("perm").index(axis)
    else:
        moved = _same_axis(dims, op.outputs[0].details.plain_dims, axis)
    if moved is None:
        return None
    rank = op.outputs[0].details.rank
    return [value.reshape(*(-1 if i == moved else 1 for i in range(rank))) for value in wide]


def _same_axis(before: tuple[int, ...], after: tuple[int, ...], axis: int) -> int | None:
    """Return the axis of the result of a reshape that is the whole axis `axis` of its input."""
    lead = math.prod(before[:axis])
    for other, size in enumerate(after):
        if size == before[axis] and math.prod(after[:other]) == lead:
            return other
    return None


def _concat(graph: Graph, op: Op) -> GraphTensor | None:
    sources = [source for x in op.inputs if (source := _dequantize_of(x)) is not None]
    if len(sources) < len(op.inputs):
        return None
    first, *others = [_uniform(source) for source in sources]
    if first is None or any(not _agree(first, other) for other in others):
        return None
    if len({source.x.details.dtype for source in sources}) > 1:
        return None
    make = Composer(graph, op)
    joined = make("concat", *(source.x for source in sources), **op.attrs)
    return _after(make, joined, first, sources[0])


def _agree(a: Sequence[Array], b: Sequence[Array] | None) -> bool:
    return b is not None and len(a) == len(b) and all(map(np.array_equal, a, b))


def _pad(graph: Graph, op: Op) -> GraphTensor | None:
    """With a number that is one of the quantized ones, or with the data's own elements."""
    source = _dequantize_of(op.inputs[0])
    parameters = None if source is None else _uniform(source)
    if source is None or parameters is None:
        return None
    attrs: dict[str, Any] = dict(op.attrs)
    if op.attr("mode") == "constant":
        number = _quantized(op.attr("value"), source, parameters)
        if number is None:
            return None
        attrs["value"] = number
    make = Composer(graph, op)
    return _after(make, make("pad", source.x, **attrs), parameters, source)


def _quantized(value: float, source: Dequantize, parameters: Sequence[Array]) -> int | None:
    """The integer that stands for exactly this number."""
    scale, *zero = (float(p) for p in parameters)
    low, high = source.x.details.dtype.limits
    if not math.isfinite(value) or not SMALLEST < abs(scale) < LARGEST:
        return None
    number = round(value / scale) + int(zero[0] if zero else 0)
    if not low <= number <= high:
        return None
    arrays = [np.array(number, source.x.details.dtype.numpy), *parameters]
    return number if float(source.reference(arrays)[0]) == value else None


def _quantize_parts(graph: Graph, op: Op) -> GraphTensor | None:
    """quantize(concat(a, b)), of which nothing else is read: concat(quantize(a), quantize(b))."""
    concat = op.inputs[0].producer_owner
    if concat.op_name != "concat" or len(concat.outputs[0].uses) > 1:
        return None
    if any(x.details.elements != 1 for x in op.inputs[1:]):
        return None
    make = Composer(graph, op)
    parts = [make("quantize", x, *op.inputs[1:], **op.attrs) for x in concat.inputs]
    return make("concat", *parts, **concat.attrs)


def _drop_pair(graph: Graph, op: Op) -> GraphTensor | None:
    """quantize(dequantize(x)) of the same scale and zero point: x."""
    source = _dequantize_of(op.inputs[0])
    if source is None or not isinstance(op, Quantize) or op.dtype != source.x.details.dtype:
        return None
    ours, theirs = _known(op), _known(source)
    if ours is None or theirs is None or op.bits < op.dtype.bits or not _agree(ours, theirs):
        return None
    scale = ours[0]
    return source.x if np.all((scale > SMALLEST) & (scale < LARGEST)) else None


RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("reshape", "transpose", "slice", "gather"), (_move,)),
    **dict.fromkeys(("max_pool", "min_pool"), (_pool,)),
    "concat": (_concat,),
    "pad": (_pad,),
    "quantize": (_drop_pair, _quantize_parts),
}
