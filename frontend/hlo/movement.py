"""Ops that move elements: broadcast, reshape, transpose, slice, concatenate, pad, reverse, iota."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ops.movement import Slice
from ...graph_ir.ops.pad import Pad
from ..correspondence.compositions import movement
from ..correspondence.values import MUST_BE_GIVEN
from ..correspondence.writing import Write
from .bounded_sizes import is_within, reshaped_sizes
from .frame import Value, Writer
from .scope import Handler, Step
from .syntax import PadRange


def _broadcast(step: Step) -> GraphTensor:
    (x,), out = step.tensors(1), step.shape
    sizes = x.details.plain_dims
    axes = step.axes("dimensions", out.rank, *(() if sizes else ((),)))
    if len(axes) != len(sizes) or not all(
        is_within(d, out.dims[a], a in out.dynamic) for a, d in zip(axes, sizes, strict=True)
    ):
        raise step.rule(
            f"dimensions must map every axis of {step.shown(x)} to one of {out.logical()} of its size",
            f"{{{','.join(map(str, axes))}}}",
        )
    given = dict(zip(axes, sizes, strict=True))
    dims = [given.get(axis, size) for axis, size in enumerate(out.dims)]
    if not axes:
        return step.broadcast(x, dims)
    moved = step.transposed(x, sorted(range(len(axes)), key=lambda i: axes[i]))
    if len(axes) == out.rank or axes != tuple(range(out.rank - len(axes), out.rank)):
        moved = step.reshaped(moved, [given.get(axis, 1) for axis in range(out.rank)])
    return step.broadcast(moved, dims)


def _reshape(step: Step) -> GraphTensor:
    (x,) = step.tensors(1)
    dims = reshaped_sizes(x.details.plain_dims, step.operand_shape(0), step.shape)
    if dims is None:
        raise step.fail(f"{step.shown(x)} and {step.shape.logical()} must have as many elements")
    return step.reshaped(x, dims)


def _transpose(step: Step) -> GraphTensor:
    (x,) = step.tensors(1)
    perm = step.axes("dimensions", x.details.rank)
    if len(perm) != x.details.rank:
        raise step.rule(
            f"dimensions must name each of the {x.details.rank} axes once", str(len(perm))
        )
    return step.transposed(x, perm)


def _slice(step: Step) -> GraphTensor:
    (x,) = step.tensors(1)
    dims, ranges = x.details.plain_dims, step.attribute("slice")
    if len(ranges) != len(dims):
        raise step.rule(f"slice must have {len(dims)} ranges", str(len(ranges)))
    for axis, (start, limit, stride) in enumerate(ranges):
        if not 0 <= start <= limit <= dims[axis] or stride < 1:
            raise step.rule(
                f"the range of axis {axis} must lie in its {dims[axis]} elements",
                f"[{start}:{limit}:{stride}]",
            )
    return movement.slice_ranges(step, x, [range(*entry) for entry in ranges])


def _concatenate(step: Step) -> GraphTensor:
    tensors = step.tensors()
    axis = step.one_axis("dimensions", step.tensor(0).details.rank)
    return tensors[0] if len(tensors) == 1 else step.make("concat", *tensors, axis=axis)


def _reverse(step: Step) -> GraphTensor:
    (x,) = step.tensors(1)
    return reverse(step, x, step.axes("dimensions", x.details.rank))


def reverse(step: Step, x: GraphTensor, axes: tuple[int, ...]) -> GraphTensor:
    """X reversed along some axes, in one slice."""
    dims = x.details.plain_dims
    return movement.slice_ranges(
        step, x, [range(d)[:: -1 if axis in axes and d > 1 else 1] for axis, d in enumerate(dims)]
    )


def _pad(step: Step) -> GraphTensor:
    x, value = step.tensors(2)
    ranges: tuple[PadRange, ...] = step.attribute("padding")
    if len(ranges) != x.details.rank or any(p.interior < 0 for p in ranges):
        given = "x".join("_".join(map(str, p)) for p in ranges)
        raise step.rule(f"padding must be for {x.details.rank} axes, inside not negative", given)
    if value.details.rank or value.details.dtype != x.details.dtype:
        raise step.rule(
            f"its value must be a scalar of the type of {step.shown(x)}", step.shown(value)
        )
    return pad(step, x, value, ranges)


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
    """`gap` elements between neighbors along an axis: padded on a separate axis, then the last ones are cropped."""
    dims = x.details.plain_dims
    cells = step.reshaped(x, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
    after = [0] * (len(dims) + 1)
    after[axis + 1] = gap
    wide = _edges(step, cells, (0,) * len(after), tuple(after), value)
    size = dims[axis] * (gap + 1)
    flat = step.reshaped(wide, (*dims[:axis], size, *dims[axis + 1 :]))
    return step.sliced(flat, axis, 0, size - gap)


def _iota(step: Step) -> GraphTensor:
    step.count(0)
    dims = step.shape.dims
    axis = step.attribute("iota_dimension", 0 if len(dims) == 1 else MUST_BE_GIVEN)
    if not 0 <= axis < len(dims):
        raise step.rule(f"iota_dimension must be an axis of {step.shape.logical()}", str(axis))
    step.check_array((dims[axis],))
    shape = [d if i == axis else 1 for i, d in enumerate(dims)]
    return step.broadcast(step.constant(np.arange(dims[axis]).reshape(shape), step.dtype), dims)


HANDLERS: dict[str, Handler] = {
    "broadcast": _broadcast, "reshape": _reshape, "transpose": _transpose, "slice": _slice,
    "concatenate": _concatenate, "reverse": _reverse, "pad": _pad, "iota": _iota,
}  # fmt: skip


def _write_slice(writer: Writer, op: Slice) -> Value:
    """Negative steps: the same elements forwards, then reversed."""
    (x,), ranges, flipped = writer.operands(op), [], []
    for axis, (start, step, size) in enumerate(zip(op.starts, op.steps, op.sizes, strict=True)):
        if step < 0 and size:
            flipped.append(axis)
            start, step = start + step * (size - 1), -step
        if not size:
            start, step = 0, 1
        limit = start + step * (size - 1) + 1 if size else start
        ranges.append(f"[{start}:{limit}:{step}]")
    given = f"{{{', '.join(ranges)}}}"
    cut = writer.apply("slice", [x], x.dtype, op.sizes, op.name, slice=given)
    return writer.same("reverse", cut, dimensions=flipped) if flipped else cut


def _write_pad(writer: Writer, op: Pad) -> Value:
    (x,) = writer.operands(op)
    edges = list(zip(op.before, op.after, strict=True))
    if op.mode != "constant":
        return _bordered(writer, x, edges, op.mode)
    if not edges:
        return x
    value = writer.constant(op.value, x.dtype)
    dims, padding = op.outputs[0].details.plain_dims, "x".join(f"{b}_{a}" for b, a in edges)
    return writer.apply("pad", [x, value], x.dtype, dims, op.name, padding=padding)


def _bordered(writer: Writer, x: Value, edges: Sequence[tuple[int, int]], mode: str) -> Value:
    """Gathers edge, reflected and wrapped elements axis by axis."""
    for axis, (b, a) in enumerate(edges):
        size = x.dims[axis]
        if not (a or b) or not size:
            continue
        source = np.arange(-b, size + a)
        if mode == "reflect" and size > 1:
            source = (size - 1) - np.abs((size - 1) - np.abs(source))
        if mode == "wrap":
            source = source % size
        x = writer.take(x, writer.constant(source.clip(0, size - 1), S64), axis)
    return x


def _write_reshape(writer: Writer, op: Op) -> Value:
    return writer.reshape(writer.operand(op.inputs[0]), op.outputs[0].details.plain_dims, op.name)


EXPORTERS: dict[str, Write] = {
    "reshape": _write_reshape,
    "broadcast": lambda writer, op: writer.spread(op),
    "slice": _write_slice,
    "pad": _write_pad,
}
