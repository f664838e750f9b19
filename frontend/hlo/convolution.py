"""convolution: permutes axes into the order of the Graph IR's op and lowers features that it lacks."""

from __future__ import annotations

from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from .movement import pad, reverse
from .scope import Handler, Step
from .syntax import DimLabels, PadRange, WindowDimension


def _convolution(step: Step) -> GraphTensor:
    x, w = (step.cast(t, step.dtype) for t in step.tensors())
    if not step.shape.size or not x.details.elements or not w.details.elements:
        return step.broadcast(step.constant(0, step.dtype), step.shape.dims)
    labels = step.typed("dim_labels", DimLabels)
    windows: tuple[WindowDimension, ...] = step.attribute("window", ())
    spatial = [str(i) for i in range(len(windows))]
    x = step.transposed(x, [labels.lhs.index(c) for c in ("b", "f", *spatial)])
    w = step.transposed(w, [labels.rhs.index(c) for c in ("o", "i", *spatial)])
    w = reverse(step, w, tuple(2 + i for i, window in enumerate(windows) if window.reversal))
    x, w, groups = _grouped(step, x, w)
    if not windows:  # a product of matrices; the op has one spatial axis at least
        x, w = (step.reshaped(t, (*t.details.plain_dims, 1)) for t in (x, w))
        windows = (WindowDimension(1),)
    x, attrs = _without_gaps(step, x, windows)
    y = step.make("convolution", x, w, groups=groups, **attrs)
    order = ["b", "f", *spatial]
    y = step.reshaped(y, y.details.plain_dims[: len(order)])
    return step.transposed(y, [order.index(c) for c in labels.output])


def _grouped(step: Step, x: GraphTensor, w: GraphTensor) -> tuple[GraphTensor, GraphTensor, int]:
    """Groups of the batch become groups of the features: each has its own block of the output features."""
    batches: int = step.attribute("batch_group_count", 1)
    groups: int = step.attribute("feature_group_count", 1)
    if batches == 1:
        return x, w, groups
    if groups > 1:
        raise step.unsupported("groups of both the batch and the features")
    batch, features, *sizes = x.details.plain_dims
    apart = step.reshaped(x, (batches, batch // batches, features, *sizes))
    moved = step.transposed(apart, (1, 0, 2, *range(3, 3 + len(sizes))))
    return step.reshaped(moved, (batch // batches, batches * features, *sizes)), w, batches


def _without_gaps(
    step: Step, x: GraphTensor, windows: tuple[WindowDimension, ...]
) -> tuple[GraphTensor, dict[str, Any]]:
    """(x, the op's geometry): zeros between elements and negative padding are materialized, as they are rare."""
    before, after = [w.low for w in windows], [w.high for w in windows]
    if any(w.base_dilation > 1 or min(w.low, w.high) < 0 for w in windows):
        edges = (PadRange(w.low, w.high, w.base_dilation - 1) for w in windows)
        x = pad(step, x, step.constant(0, step.dtype), (PadRange(0, 0), PadRange(0, 0), *edges))
        before = after = [0] * len(windows)
    return x, {
        "strides": tuple(w.stride for w in windows),
        "dilations": tuple(w.window_dilation for w in windows),
        "before": tuple(before),
        "after": tuple(after),
    }


CONVOLUTION: dict[str, Handler] = {"convolution": _convolution}
"""Opcode to handler."""
