"""Movement, products and index ops as HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ops.cast import Cast
from ...graph_ir.ops.gather import Gather
from ...graph_ir.ops.gather_elements import GatherElements
from ...graph_ir.ops.matmul import MatmulCore
from ...graph_ir.ops.movement import Concat, Slice, Transpose
from ...graph_ir.ops.pad import Pad
from .instruction_writer import Value, Writer
from .known import clamp_limits
from .writer_control import write_case, write_while
from .writer_scatter import write_scatter
from .writer_window import write_convolution, write_cumulative, write_pool


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _dims(op: Op) -> tuple[int, ...]:
    return op.outputs[0].details.plain_dims


def _identity(writer: Writer, op: Op) -> Value:
    return writer.value(op.inputs[0])


def _cast(writer: Writer, op: Op) -> Value:
    assert isinstance(op, Cast)
    return writer.cast(writer.value(op.inputs[0]), op.dtype, op.name)


def _bitcast(writer: Writer, op: Op) -> Value:
    details = op.outputs[0].details
    x = writer.value(op.inputs[0])
    return writer.emit("bitcast-convert", [x], details.dtype, details.plain_dims, name=op.name)


def _reshape(writer: Writer, op: Op) -> Value:
    return writer.reshape(writer.value(op.inputs[0]), _dims(op), op.name)


def _broadcast(writer: Writer, op: Op) -> Value:
    return writer.spread(op)


def _transpose(writer: Writer, op: Op) -> Value:
    assert isinstance(op, Transpose)
    x = writer.value(op.inputs[0])
    return writer.emit(
        "transpose", [x], x.dtype, _dims(op), f"dimensions={{{_list(op.perm)}}}", op.name
    )


def _concat(writer: Writer, op: Op) -> Value:
    assert isinstance(op, Concat)
    parts = [writer.value(x) for x in op.inputs]
    return writer.emit(
        "concatenate", parts, parts[0].dtype, _dims(op), f"dimensions={{{op.axis}}}", op.name
    )


def _slice(writer: Writer, op: Op) -> Value:
    """Negative steps: the same elements forwards, then reversed."""
    assert isinstance(op, Slice)
    x = writer.value(op.inputs[0])
    ranges, turned = [], []
    for axis, (start, step, size) in enumerate(zip(op.starts, op.steps, op.sizes, strict=True)):
        if step < 0 and size:
            turned.append(axis)
            start, step = start + step * (size - 1), -step
        if not size:
            start, step = 0, 1
        limit = start + step * (size - 1) + 1 if size else start
        ranges.append(f"[{start}:{limit}:{step}]")
    cut = writer.emit("slice", [x], x.dtype, op.sizes, f"slice={{{', '.join(ranges)}}}", op.name)
    if not turned:
        return cut
    return writer.same("reverse", cut, attributes=f"dimensions={{{_list(turned)}}}")


def _pad(writer: Writer, op: Op) -> Value:
    assert isinstance(op, Pad)
    x = writer.value(op.inputs[0])
    before, after = op.before, op.after
    if op.mode != "constant":
        return _bordered(writer, x, before, after, op.mode)
    padding = "x".join(f"{b}_{a}" for b, a in zip(before, after, strict=True))
    if not padding:
        return x
    value = writer.constant(op.value, x.dtype)
    return writer.emit("pad", [x, value], x.dtype, _dims(op), f"padding={padding}", op.name)


def _bordered(
    writer: Writer, x: Value, before: Sequence[int], after: Sequence[int], mode: str
) -> Value:
    """Gathers edge, reflected and wrapped elements axis by axis."""
    for axis, (b, a) in enumerate(zip(before, after, strict=True)):
        size = x.dims[axis]
        if not (a or b) or not size:
            continue
        place = np.arange(-b, size + a)
        if mode == "reflect" and size > 1:
            place = (size - 1) - np.abs((size - 1) - np.abs(place))
        if mode == "wrap":
            place = place % size
        x = writer.take(x, writer.constant(place.clip(0, size - 1), S64), axis)
    return x


def _matmul(writer: Writer, op: Op) -> Value:
    """One dot with leading batch axes; 16-bit floats are multiplied and summed in f32."""
    assert isinstance(op, MatmulCore)
    out = op.outputs[0].details
    batch = out.plain_dims[:-2]
    wide = out.dtype.accumulator
    a, b = (
        writer.cast(writer.broadcast(writer.value(x), (*batch, *x.details.plain_dims[-2:])), wide)
        for x in op.inputs
    )
    rank = len(batch)
    axes = _list(range(rank))
    attributes = ", ".join(
        [
            *([f"lhs_batch_dims={{{axes}}}"] if rank else []),
            f"lhs_contracting_dims={{{rank if op.transpose_a else rank + 1}}}",
            *([f"rhs_batch_dims={{{axes}}}"] if rank else []),
            f"rhs_contracting_dims={{{rank + 1 if op.transpose_b else rank}}}",
        ]
    )
    product = writer.emit("dot", [a, b], wide, out.plain_dims, attributes, op.name)
    return writer.cast(product, out.dtype)


def _wrapped(writer: Writer, tensor: GraphTensor, size: int) -> Value:
    """Negative indices counted from the back, as s64; indices that cannot be negative are unchanged."""
    indices = writer.cast(writer.value(tensor), S64)
    value = writer.known(tensor)
    limits = clamp_limits(tensor, writer.known)
    if (limits and limits[0] >= 0) or (value is not None and (value >= 0).all()):
        return indices
    zero = writer.broadcast(writer.constant(0, S64), indices.dims)
    length = writer.broadcast(writer.constant(size, S64), indices.dims)
    negative = writer.emit("compare", [indices, zero], BOOL, indices.dims, "direction=LT")
    return writer.same("select", negative, writer.same("add", indices, length), indices)


def _gather(writer: Writer, op: Op) -> Value:
    assert isinstance(op, Gather)
    x = writer.value(op.inputs[0])
    return writer.take(x, _wrapped(writer, op.inputs[1], x.dims[op.axis]), op.axis, op.name)


def _update_slice(writer: Writer, op: Op) -> Value:
    x, update, *starts = (writer.value(tensor) for tensor in op.inputs)
    zero = writer.constant(0, S64)
    given = dict(zip(op.attr("axes"), starts, strict=True))
    places = [given.get(axis, zero) for axis in range(op.outputs[0].details.rank)]
    operands = [x, update, *places]
    return writer.emit("dynamic-update-slice", operands, x.dtype, _dims(op), "", op.name)


def _gather_elements(writer: Writer, op: Op) -> Value:
    """A gather of single elements, whose index rows contain the element's own position on the other axes."""
    assert isinstance(op, GatherElements)
    x, indices = (writer.value(t) for t in op.inputs)
    wrapped = _wrapped(writer, op.inputs[1], x.dims[op.axis])
    cells = (*indices.dims, 1)
    parts = [
        writer.reshape(wrapped, cells)
        if axis == op.axis
        else writer.emit("iota", [], S64, cells, f"iota_dimension={axis}")
        for axis in range(len(x.dims))
    ]
    rank = len(x.dims)
    rows = writer.emit("concatenate", parts, S64, (*indices.dims, rank), f"dimensions={{{rank}}}")
    every = _list(range(rank))
    return writer.emit(
        "gather",
        [x, rows],
        x.dtype,
        indices.dims,
        f"offset_dims={{}}, collapsed_slice_dims={{{every}}}, start_index_map={{{every}}}, "
        f"index_vector_dim={rank}, slice_sizes={{{_list([1] * rank)}}}",
        op.name,
    )


WRITERS: dict[str, Callable[[Writer, Op], Value]] = {
    "copy": _identity,
    "reorder": _identity,
    "cast": _cast,
    "bitcast": _bitcast,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "matmul_core": _matmul,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "scatter": write_scatter,
    "case": write_case,
    "while": write_while,
    "update_slice": _update_slice,
    "convolution": write_convolution,
    **dict.fromkeys(("max_pool", "min_pool", "sum_pool", "prod_pool"), write_pool),
    **dict.fromkeys(("cum_sum", "cum_prod"), write_cumulative),
}
"""Writers by op name; elementwise ops and reductions are written from their formulas."""
