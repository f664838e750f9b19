"""Windows as HLO writes them: their checks, how many positions they have, and what is written as reduce-window."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.cumulative import CumProd, CumSum
from ...graph_ir.ops.pool import WindowReduce
from ...graph_ir.ops.reduce import identity
from ...graph_ir.ops.window import Window
from ..correspondence.writing import Write
from .formulas import combining
from .frame import Value, Writer
from .scope import Step
from .syntax import WindowDimension

Windows = tuple[WindowDimension, ...]


def windows_of(step: Step, rank: int) -> Windows:
    """The entries of the window for each of `rank` axes."""
    windows: Windows = step.attribute("window", ())
    if len(windows) != rank:
        raise step.rule(f"window must have {rank} axes", str(len(windows)))
    for w in windows:
        if min(w.size, w.stride, w.base_dilation, w.window_dilation) < 1:
            raise step.fail("sizes, strides and dilations of a window must be 1 or more")
    return windows


def positions_of(dims: Sequence[int], windows: Windows) -> tuple[int, ...]:
    """The number of positions of the window on each axis; none where it does not fit."""
    found = []
    for size, w in zip(dims, windows, strict=True):
        spread = (size - 1) * w.base_dilation + 1 if size else 0
        room = spread + w.low + w.high - (w.size - 1) * w.window_dilation - 1
        found.append(room // w.stride + 1 if room >= 0 else 0)
    return tuple(found)


def has_gaps(windows: Windows) -> bool:
    """Return whether there are zeros between elements or negative padding, which windows of the Graph IR lack."""
    return any(w.base_dilation > 1 or min(w.low, w.high) < 0 for w in windows)


def write_window(window: Window, after: Sequence[int], lead: int = 0) -> str:
    """`{size=.. stride=.. pad=..}` with `lead` axes of size 1 before those of the window."""
    ones = (1,) * lead
    edges = [(0, 0)] * lead + list(zip(window.before, after, strict=True))
    rows = {
        "size": (*ones, *window.kernel),
        "stride": (*ones, *window.strides),
        "rhs_dilate": (*ones, *window.dilations),
        "pad": [f"{a}_{b}" for a, b in edges],
    }
    given = [key for key, row in rows.items() if key == "size" or {*row} - {1, "0_0"}]
    return f"{{{' '.join(f'{key}={_joined(rows[key])}' for key in given)}}}"


def _joined(values: Sequence[object]) -> str:
    return "x".join(map(str, values))


def _write_pool(writer: Writer, op: WindowReduce) -> Value:
    """A reduce-window over all axes; padding after the input is what the last window needs."""
    x, window = op.inputs[0].details, op.window
    lead = x.rank - window.rank
    after = window.ends(x.plain_dims[lead:]) if window.ceil_mode else window.after
    return _reduced(writer, op, op.combine, write_window(window, after, lead))


def _write_cumulative(writer: Writer, op: CumSum | CumProd) -> Value:
    """A window as long as the axis, which starts with all but one element in the padding."""
    dims, axis = op.outputs[0].details.plain_dims, op.axis
    if not op.outputs[0].details.elements:
        return writer.operand(op.inputs[0])
    size, exclusive = dims[axis], op.attr("exclusive")
    low, high = size - 1 + exclusive, -int(exclusive)
    if op.attr("reverse"):
        low, high = high, low
    sizes = _joined([size if i == axis else 1 for i in range(len(dims))])
    pads = _joined([f"{low}_{high}" if i == axis else "0_0" for i in range(len(dims))])
    return _reduced(writer, op, op.combine, f"{{size={sizes} pad={pads}}}")


def _reduced(writer: Writer, op: Op, combine: str, window: str) -> Value:
    x, dims = writer.operand(op.inputs[0]), op.outputs[0].details.plain_dims
    wide, combine = x.dtype.accumulator, combining(combine, x.dtype)
    operands = [writer.cast(x, wide), writer.constant(identity(combine, wide), wide, "identity")]
    body = writer.body(combine, wide)
    y = writer.apply("reduce-window", operands, wide, dims, op.name, window=window, to_apply=body)
    return writer.cast(y, x.dtype)


EXPORTERS: dict[str, Write] = {
    **dict.fromkeys(("max_pool", "min_pool", "sum_pool", "prod_pool"), _write_pool),
    **dict.fromkeys(("cum_sum", "cum_prod"), _write_cumulative),
}
