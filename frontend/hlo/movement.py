"""Opcodes that move elements: broadcast, reshape, transpose, slice, concatenate, pad, reverse, iota, bitcast."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import GraphTensor
from .literals import MOST_ELEMENTS
from .scope import Handler, Step
from .syntax import PadRange


def _broadcast(step: Step) -> GraphTensor:
    x = step.tensor(0)
    if step.is_mapped:
        return x
    axes: tuple[int, ...] = step.attribute("dimensions", ())
    out = step.shape.dims
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    dims = [1] * len(out)
    if not axes:
        return step.broadcast(x, out)
    for axis in axes:
        dims[axis] = out[axis]
    moved = step.transposed(x, order)
    if len(axes) == len(out) or axes != tuple(range(len(out) - len(axes), len(out))):
        moved = step.reshaped(moved, dims)
    return step.broadcast(moved, out)


def _reshape(step: Step) -> GraphTensor:
    return step.tensor(0) if step.is_mapped else step.reshaped(step.tensor(0), step.shape.dims)


def _transpose(step: Step) -> GraphTensor:
    x = step.tensor(0)
    return x if step.is_mapped else step.transposed(x, step.attribute("dimensions"))


def _slice(step: Step) -> GraphTensor:
    x = step.tensor(0)
    ranges = step.typed("slice", tuple)
    if step.shape.dims == x.details.plain_dims:
        return x
    return step.make(
        "slice",
        x,
        starts=tuple(
            r.start if size else 0 for r, size in zip(ranges, step.shape.dims, strict=True)
        ),
        steps=tuple(r.stride for r in ranges),
        sizes=step.shape.dims,
    )


def _concatenate(step: Step) -> GraphTensor:
    tensors = step.tensors()
    if len(tensors) == 1:
        return tensors[0]
    return step.make("concat", *tensors, axis=step.attribute("dimensions")[0])


def _reverse(step: Step) -> GraphTensor:
    return reverse(step, step.tensor(0), step.attribute("dimensions"))


def reverse(step: Step, x: GraphTensor, axes: tuple[int, ...]) -> GraphTensor:
    """X reversed along some axes."""
    dims = x.details.plain_dims
    turned = [axis for axis in axes if dims[axis] > 1]
    if not turned or not x.details.elements:
        return x
    return step.make(
        "slice",
        x,
        starts=tuple(size - 1 if axis in turned else 0 for axis, size in enumerate(dims)),
        steps=tuple(-1 if axis in turned else 1 for axis in range(len(dims))),
        sizes=dims,
    )


def _pad(step: Step) -> GraphTensor:
    x, value = step.tensors()
    return pad(step, x, value, step.typed("padding", tuple))


def pad(
    step: Step, x: GraphTensor, value: GraphTensor, ranges: tuple[PadRange, ...]
) -> GraphTensor:
    """X with elements `value` inserted between its own and at the edges; negative edges crop."""
    if not any(any(p) for p in ranges):
        return x
    filling = step.known(value)
    if filling is not None:
        return _padded(step, x, filling.item(), ranges)
    ones = step.broadcast(step.constant(True, BOOL), x.details.plain_dims)
    inside = _padded(step, ones, False, ranges)
    return step.make("select", inside, _padded(step, x, 0, ranges), value)


def _padded(step: Step, x: GraphTensor, value: float, ranges: tuple[PadRange, ...]) -> GraphTensor:
    for axis, p in enumerate(ranges):
        if p.interior and x.details.plain_dims[axis] > 1:
            x = _spread(step, x, axis, p.interior, value)
    before, after = tuple(p.low for p in ranges), tuple(p.high for p in ranges)
    return _edges(step, x, before, after, value)


def _edges(
    step: Step, x: GraphTensor, before: tuple[int, ...], after: tuple[int, ...], value: float
) -> GraphTensor:
    if not any(before) and not any(after):
        return x
    return step.make("pad", x, before=before, after=after, mode="constant", value=value)


def _spread(step: Step, x: GraphTensor, axis: int, gap: int, value: float) -> GraphTensor:
    """`gap` elements between neighbours along an axis: padded on a separate axis, then the last ones are cropped."""
    dims = x.details.plain_dims
    cells = step.reshaped(x, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
    after = [0] * (len(dims) + 1)
    after[axis + 1] = gap
    wide = _edges(step, cells, (0,) * len(after), tuple(after), value)
    size = dims[axis] * (gap + 1)
    flat = step.reshaped(wide, (*dims[:axis], size, *dims[axis + 1 :]))
    return step.strided(flat, axis, 0, 1, size - gap)


def _iota(step: Step) -> GraphTensor:
    dims = step.shape.dims
    axis = step.attribute("iota_dimension", 0)
    if dims[axis] > MOST_ELEMENTS:
        raise step.fail(f"an axis must not exceed {MOST_ELEMENTS} positions, got {dims[axis]}")
    shape = [1] * len(dims)
    shape[axis] = dims[axis]
    return step.broadcast(step.constant(np.arange(dims[axis]).reshape(shape), step.dtype), dims)


def _bitcast(step: Step) -> GraphTensor:
    """Reinterpret the physical buffer: permute axes to memory order, reshape, and permute back."""
    x = step.tensor(0)
    if x.details.dtype != step.dtype:
        if BOOL in (x.details.dtype, step.dtype) or x.details.dtype.bits != step.dtype.bits:
            raise step.unsupported(f"reading {x.details.dtype} as {step.shape.type}")
        x = step.make("bitcast", x, dtype=step.dtype.name)
    if step.is_mapped:
        return x
    source = step.operand_shape(0)
    memory = step.transposed(x, source.minor_to_major[::-1])
    order = step.shape.minor_to_major[::-1]
    flat = step.reshaped(memory, [step.shape.dims[axis] for axis in order])
    return step.transposed(flat, [order.index(axis) for axis in range(len(order))])


MOVEMENT: dict[str, Handler] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "dynamic-reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "reverse": _reverse,
    "pad": _pad,
    "iota": _iota,
    "bitcast": _bitcast,
}
"""Opcode to handler."""
