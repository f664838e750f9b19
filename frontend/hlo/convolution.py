"""convolution: permutes axes into the order of the Graph IR's op and lowers features that it lacks."""

from __future__ import annotations

from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.convolution import Convolution
from ..correspondence.writing import Write
from .contraction import computed_in
from .frame import Value, Writer
from .movement import pad, reverse
from .scope import Handler, Step
from .syntax import DimLabels, PadRange, WindowDimension
from .windows import Windows, has_gaps, positions_of, windows_of, write_window


def _convolution(step: Step) -> GraphTensor:
    x, w = step.tensors(2)
    dtype = step.dtype if step.instruction.shape else x.details.dtype
    wide = computed_in(dtype)
    labels = _labels(step, x, w)
    windows = windows_of(step, x.details.rank - 2)
    spatial = [str(i) for i in range(len(windows))]
    x = step.transposed(
        step.converted(x, wide), [labels.lhs.index(c) for c in ("b", "f", *spatial)]
    )
    w = step.transposed(
        step.converted(w, wide), [labels.rhs.index(c) for c in ("o", "i", *spatial)]
    )
    for axis, (window, size) in enumerate(zip(windows, w.details.plain_dims[2:], strict=True)):
        if window.size != size:
            raise step.rule(f"window size {axis} must be that of the kernel", str(window.size))
    x, w, groups = _grouped(step, x, w)
    order = ["b", "f", *spatial]
    outside = [order.index(c) for c in labels.output]
    sizes = positions_of(x.details.plain_dims[2:], windows)
    if 0 in (*sizes, x.details.elements, w.details.elements):
        dims = (x.details.plain_dims[0], w.details.plain_dims[0], *sizes)
        return step.broadcast(step.constant(0, dtype), [dims[i] for i in outside])
    w = reverse(step, w, tuple(2 + i for i, window in enumerate(windows) if window.reversal))
    if not windows:  # a matmul; the op has one spatial axis at least
        x, w = (step.reshaped(t, (*t.details.plain_dims, 1)) for t in (x, w))
        windows = (WindowDimension(1),)
    x, attrs = _without_gaps(step, x, windows)
    y = step.make("convolution", x, w, groups=groups, **attrs)
    y = step.reshaped(y, y.details.plain_dims[: len(order)])
    return step.converted(step.transposed(y, outside), dtype)


def _labels(step: Step, x: GraphTensor, w: GraphTensor) -> DimLabels:
    """Return the labels of the axes."""
    labels: DimLabels = step.attribute("dim_labels")
    rank = x.details.rank - 2
    for text, letters in ((labels.lhs, "bf"), (labels.rhs, "io"), (labels.output, "bf")):
        if sorted(text) != sorted([*letters, *map(str, range(rank))]) or w.details.rank != rank + 2:
            raise step.rule(
                f"dim_labels must name {letters[0]}, {letters[1]} and {rank} spatial axes",
                f"'{text}'",
            )
    return labels


def _grouped(step: Step, x: GraphTensor, w: GraphTensor) -> tuple[GraphTensor, GraphTensor, int]:
    """Groups of the batch become groups of the features: each has its own block of the output features."""
    batches: int = step.attribute("batch_group_count", 1)
    groups: int = step.attribute("feature_group_count", 1)
    (batch, features, *sizes), (filters, inner, *_) = (t.details.plain_dims for t in (x, w))
    if min(groups, batches) < 1 or features != inner * groups:
        raise step.rule(f"input features must be {inner} times {groups} groups", str(features))
    if filters % groups or filters % batches or batch % batches:
        raise step.fail("group counts must divide the output features and the batch")
    if batches == 1:
        return x, w, groups
    if groups > 1:
        raise step.unsupported("groups of both the batch and the features")
    apart = step.reshaped(x, (batches, batch // batches, features, *sizes))
    moved = step.transposed(apart, (1, 0, 2, *range(3, 3 + len(sizes))))
    return step.reshaped(moved, (batch // batches, batches * features, *sizes)), w, batches


def _without_gaps(
    step: Step, x: GraphTensor, windows: Windows
) -> tuple[GraphTensor, dict[str, Any]]:
    """(x, the op's geometry): zeros between elements and negative padding are materialized, as they are rare."""
    before, after = [w.low for w in windows], [w.high for w in windows]
    if has_gaps(windows):
        edges = (PadRange(w.low, w.high, w.base_dilation - 1) for w in windows)
        x = pad(
            step, x, step.constant(0, x.details.dtype), (PadRange(0, 0), PadRange(0, 0), *edges)
        )
        before = after = [0] * len(windows)
    return x, {
        "strides": tuple(w.stride for w in windows),
        "dilations": tuple(w.window_dilation for w in windows),
        "before": tuple(before),
        "after": tuple(after),
    }


HANDLERS: dict[str, Handler] = {"convolution": _convolution}


def _write_convolution(writer: Writer, op: Convolution) -> Value:
    """16-bit floats are multiplied and summed in f32."""
    out = op.outputs[0].details
    wide, spatial = out.dtype.accumulator, "".join(map(str, range(out.rank - 2)))
    y = writer.apply(
        "convolution",
        [writer.cast(x, wide) for x in writer.operands(op)],
        wide,
        out.plain_dims,
        op.name,
        window=write_window(op.window, op.window.after),
        dim_labels=f"bf{spatial}_oi{spatial}->bf{spatial}",
        feature_group_count=op.groups if op.groups > 1 else None,
    )
    return writer.cast(y, out.dtype)


EXPORTERS: dict[str, Write] = {"convolution": _write_convolution}
