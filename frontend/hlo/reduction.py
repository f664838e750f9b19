"""reduce and reduce-window: known bodies map to reductions of the Graph IR, others to a tree of steps.

HLO leaves the order of combination open, so log2(n) steps that apply the body to halves of an array suffice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import S32
from ...graph_ir.ir.graph import GraphTensor
from .bodies import is_arg_extreme, single_opcode
from .elementwise import LOGICAL, combine
from .movement import pad
from .scope import Handler, Step
from .syntax import PadRange, WindowDimension

_REDUCTIONS = {
    "add": ("reduce_sum", 0),
    "multiply": ("reduce_prod", 1),
    "maximum": ("reduce_max", -math.inf),
    "minimum": ("reduce_min", math.inf),
}
_POOLS = {"add": "sum_pool", "multiply": "prod_pool", "maximum": "max_pool", "minimum": "min_pool"}
_MOST_POOLED = 128  # elements of a window; larger ones share the work of their parts
_LOGICAL = {"and": ("reduce_all", True), "or": ("reduce_any", False)}


def _reduce(step: Step) -> Any:
    count = len(step.operands) // 2
    arrays, initial = step.tensors()[:count], step.tensors()[count:]
    axes: tuple[int, ...] = step.attribute("dimensions", ())
    if count == 1:
        known = _known_reduction(step, arrays[0], initial[0], axes)
        if known is not None:
            return known
    if count == 2:
        extreme = _arg_extreme(step, arrays, initial, axes)
        if extreme is not None:
            return extreme
    return _tree(step, arrays, initial, axes)


def _known_reduction(
    step: Step, x: GraphTensor, initial: GraphTensor, axes: tuple[int, ...]
) -> GraphTensor | None:
    opcode = single_opcode(step.computation("to_apply"))
    is_bool = x.details.dtype.kind == "bool"
    if is_bool:
        opcode = LOGICAL.get(opcode, opcode)
    row = (_LOGICAL if is_bool else _REDUCTIONS).get(opcode)
    if row is None or x.details.dtype != initial.details.dtype:
        return None
    op_name, identity = row
    result = step.make(op_name, x, axes=axes, keep_dims=False)
    return result if _is(step, initial, identity) else combine(step, opcode, initial, result)


def _is(step: Step, tensor: GraphTensor, wanted: float) -> bool:
    """Whether a scalar is known to be `wanted`, infinities meaning the extremes of an integer type."""
    value = step.known(tensor)
    dtype = tensor.details.dtype
    if value is None:
        return False
    if math.isinf(wanted) and not dtype.is_float:
        limits = np.iinfo(dtype.numpy)
        return bool(value == (limits.max if wanted > 0 else limits.min))
    return bool(value == wanted)


def _arg_extreme(
    step: Step,
    arrays: list[GraphTensor],
    initial: list[GraphTensor],
    axes: tuple[int, ...],
) -> tuple[GraphTensor, GraphTensor] | None:
    """The body of argmax or argmin over positions: a search the Graph IR has an op for."""
    word = is_arg_extreme(step.computation("to_apply"))
    x, index = arrays
    if not word or len(axes) != 1 or not x.details.plain_dims[axes[0]]:
        return None
    worst = -math.inf if word == "max" else math.inf
    positions = step.known(index)
    if positions is None or not _is(step, initial[0], worst) or not _is(step, initial[1], 0):
        return None
    (axis,) = axes
    shape = [1] * positions.ndim
    shape[axis] = -1
    if not np.array_equal(
        positions, np.broadcast_to(np.arange(positions.shape[axis]).reshape(shape), positions.shape)
    ):
        return None
    value = step.make(f"reduce_{word}", x, axes=axes, keep_dims=False)
    place = step.make(f"arg_{word}", x, axis=axis, keep_dims=False)
    return value, step.cast(place, index.details.dtype)


def _apply(
    step: Step, left: Sequence[GraphTensor], right: Sequence[GraphTensor]
) -> list[GraphTensor]:
    """The body on two lists of arrays."""
    body = step.computation("to_apply")
    result = step.owner.inline_mapped(body, [*left, *right])
    results = list(result) if isinstance(result, tuple) else [result]
    shape = np.broadcast_shapes(*(x.details.plain_dims for x in (*left, *right)))
    return [step.broadcast(y, shape) for y in results]


def _tree(
    step: Step,
    arrays: Sequence[GraphTensor],
    initial: Sequence[GraphTensor],
    axes: tuple[int, ...],
) -> Any:
    dims = arrays[0].details.plain_dims
    kept = [axis for axis in range(len(dims)) if axis not in axes]
    outer = tuple(dims[axis] for axis in kept)
    size = math.prod(dims[axis] for axis in axes)
    parts = [
        step.reshaped(step.transposed(x, (*kept, *sorted(axes))), (*outer, size)) for x in arrays
    ]
    last = len(outer)
    while size > 1:
        half = size // 2
        merged = _apply(
            step,
            [step.strided(x, last, 0, 2, half) for x in parts],
            [step.strided(x, last, 1, 2, half) for x in parts],
        )
        if size % 2:
            merged = [
                step.make("concat", y, step.strided(x, last, size - 1, 1, 1), axis=last)
                for x, y in zip(parts, merged, strict=True)
            ]
        parts, size = merged, half + size % 2
    if not size:
        results = [step.broadcast(x, outer) for x in initial]
    else:
        results = _apply(step, initial, [step.reshaped(x, outer) for x in parts])
    return tuple(results) if step.shape.is_tuple else results[0]


def _reduce_window(step: Step) -> Any:
    """Small windows of known bodies as pools, all others axis by axis, put together from powers of two."""
    count = len(step.operands) // 2
    arrays, initial = step.tensors()[:count], step.tensors()[count:]
    windows: tuple[WindowDimension, ...] = step.typed("window", tuple)
    pooled = _pooled(step, arrays[0], initial[0], windows) if count == 1 else None
    if pooled is not None:
        return pooled
    edges = tuple(PadRange(w.low, w.high, w.base_dilation - 1) for w in windows)
    parts = [pad(step, x, i, edges) for x, i in zip(arrays, initial, strict=True)]
    elements = step.shape.elements if step.shape.is_tuple else (step.shape,)
    sizes = elements[0].dims
    if 0 in sizes:
        results = [step.broadcast(i, sizes) for i in initial]
    else:
        for axis, window in enumerate(windows):
            parts = _windowed(step, parts, axis, window, sizes[axis])
        results = _apply(step, initial, parts)
    return tuple(results) if step.shape.is_tuple else results[0]


def _pooled(
    step: Step, x: GraphTensor, initial: GraphTensor, windows: Sequence[WindowDimension]
) -> GraphTensor | None:
    opcode = single_opcode(step.computation("to_apply"))
    op_name = _POOLS.get(opcode)
    has_gaps = any(w.base_dilation > 1 or min(w.low, w.high) < 0 for w in windows)
    size = math.prod(w.size for w in windows)
    empty = not windows or not x.details.elements or not step.shape.size
    if not op_name or x.details.dtype.kind == "bool" or has_gaps or empty or size > _MOST_POOLED:
        return None
    if not _is(step, initial, _REDUCTIONS[opcode][1]):
        return None
    first = next((i for i, w in enumerate(windows) if w != WindowDimension(1)), len(windows) - 1)
    inner = windows[first:]
    return step.make(
        op_name,
        x,
        kernel=tuple(w.size for w in inner),
        strides=tuple(w.stride for w in inner),
        dilations=tuple(w.window_dilation for w in inner),
        before=tuple(w.low for w in inner),
        after=tuple(w.high for w in inner),
    )


def _windowed(
    step: Step, parts: list[GraphTensor], axis: int, window: WindowDimension, size: int
) -> list[GraphTensor]:
    """`size` windows along an axis: runs of 1, 2, 4, ... elements, those that make up the window joined in order."""
    reach = (size - 1) * window.stride + 1  # places a window may start at
    result: list[GraphTensor] = []
    done, run = 0, 1
    powers = parts
    while True:
        if window.size & run:
            piece = [_shifted(step, x, axis, done * window.window_dilation, reach) for x in powers]
            result = _apply(step, result, piece) if result else piece
            done += run
        if 2 * run > window.size:
            break
        offset = run * window.window_dilation
        left = powers[0].details.plain_dims[axis] - offset
        powers = _apply(
            step,
            [_shifted(step, x, axis, 0, left) for x in powers],
            [_shifted(step, x, axis, offset, left) for x in powers],
        )
        run *= 2
    return [step.strided(x, axis, 0, window.stride, size) for x in result]


def _shifted(step: Step, x: GraphTensor, axis: int, start: int, size: int) -> GraphTensor:
    return step.strided(x, axis, start, 1, size)


def top_k(step: Step, x: GraphTensor, k: int, is_largest: bool) -> Any:
    """(values, s32 indices) of the last axis."""
    axis = len(x.details.plain_dims) - 1
    op = step.graph.make(
        "top_k", (x,), {"k": k, "axis": axis, "largest": is_largest}, step.instruction.name
    )
    return op.outputs[0], step.cast(op.outputs[1], S32)


REDUCTION: dict[str, Handler] = {"reduce": _reduce, "reduce-window": _reduce_window}
"""Opcode to handler."""
