"""Writes convolutions, pools and scans as HLO operations with a window."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.convolution import Convolution
from ...graph_ir.ops.cumulative import CumProd, CumSum
from ...graph_ir.ops.pool import WindowReduce
from ...graph_ir.ops.reduce import identity
from ...graph_ir.ops.window import Window
from .instruction_writer import Value, Writer


def write_convolution(writer: Writer, op: Op) -> Value:
    """16-bit floats are multiplied and summed in f32."""
    assert isinstance(op, Convolution)
    out = op.outputs[0].details
    wide = out.dtype.accumulator
    x, w = (writer.cast(writer.value(t), wide) for t in op.inputs)
    spatial = "".join(map(str, range(out.rank - 2)))
    attributes = (
        f"{_window(op.window, op.window.after)}, dim_labels=bf{spatial}_oi{spatial}->bf{spatial}"
    )
    if op.groups > 1:
        attributes += f", feature_group_count={op.groups}"
    y = writer.emit("convolution", [x, w], wide, out.plain_dims, attributes, op.name)
    return writer.cast(y, out.dtype)


def write_pool(writer: Writer, op: Op) -> Value:
    """A reduce-window over all axes; padding after the input is what the last window needs."""
    assert isinstance(op, WindowReduce)
    x, out = op.inputs[0].details, op.outputs[0].details
    window = op.window
    lead = x.rank - window.rank
    after = window.ends(x.plain_dims[lead:]) if window.ceil_mode else window.after
    text = _window(window, after, lead)
    return _reduced(writer, op, op.combine, text, out.plain_dims)


def write_cumulative(writer: Writer, op: Op) -> Value:
    """A window as long as the axis, which starts with all but one element in the padding."""
    assert isinstance(op, CumSum | CumProd)
    dims, axis = op.outputs[0].details.plain_dims, op.axis
    if not op.outputs[0].details.elements:
        return writer.value(op.inputs[0])
    size, exclusive = dims[axis], op.attr("exclusive")
    low, high = size - 1 + exclusive, -int(exclusive)
    if op.attr("reverse"):
        low, high = high, low
    sizes = "x".join(str(size if i == axis else 1) for i in range(len(dims)))
    pads = "x".join(f"{low}_{high}" if i == axis else "0_0" for i in range(len(dims)))
    return _reduced(writer, op, op.combine, f"window={{size={sizes} pad={pads}}}", dims)


def _reduced(writer: Writer, op: Op, combine: str, window: str, dims: Sequence[int]) -> Value:
    x = writer.value(op.inputs[0])
    wide = x.dtype.accumulator
    if x.dtype == BOOL:
        combine = {"min": "and", "max": "or"}.get(combine, combine)
    start = writer.constant(identity(combine, wide), wide, "identity")
    attributes = f"{window}, to_apply=%{writer.body(combine, wide)}"
    operands = [writer.cast(x, wide), start]
    y = writer.emit("reduce-window", operands, wide, dims, attributes, op.name)
    return writer.cast(y, x.dtype)


def _window(window: Window, after: Sequence[int], lead: int = 0) -> str:
    """`window={...}` with `lead` axes of size 1 before those of the window."""
    ones = (1,) * lead
    pads = [(0, 0)] * lead + list(zip(window.before, after, strict=True))
    rows = [
        ("size", (*ones, *window.kernel), None),
        ("stride", (*ones, *window.strides), 1),
        ("rhs_dilate", (*ones, *window.dilations), 1),
    ]
    parts = [
        f"{name}={'x'.join(map(str, values))}"
        for name, values, default in rows
        if any(value != default for value in values)
    ]
    if any(any(p) for p in pads):
        parts.append("pad=" + "x".join(f"{a}_{b}" for a, b in pads))
    return f"window={{{' '.join(parts)}}}"
