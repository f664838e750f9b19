"""Fold pads into the padding of the convolutions and pools that read them."""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor
from ..ops.pad import Pad
from ..ops.pool import AvgPool, WindowReduce
from ..ops.window import Windowed
from ..rewriting.rewrite import rewrite
from ..rewriting.values import is_finite, never_below_zero
from ..schedule.context import LowerContext


def fold_padding(graph: Graph, ctx: LowerContext) -> bool:
    """Give a convolution or pool the padding of the pad that it reads.

    %p = pad(%x, before=(0, 0, 0, 0), after=(0, 0, 1, 1)); %y = convolution(%p, %w, strides=(2, 2))
    ->
    %y = convolution(%x, %w, strides=(2, 2), after=(1, 1))

    The pad must add the value that the op's own padding has, and add it along the axes of the window only. Weights of
    floats must be constant and finite: a padding of zeros times an infinity is NaN, which the op may leave out.
    Exporters of models with asymmetric padding ("SAME" of TensorFlow) write such pads.
    Requires: topological order, plain layouts.
    Ensures: topological order.
    """
    pools = [f"{kind}_pool" for kind in ("max", "min", "sum", "avg")]
    return rewrite(graph, {"convolution": [_fold], **{name: [_fold] for name in pools}})


def _fold(graph: Graph, op: Windowed) -> GraphTensor | None:
    pad = op.inputs[0].producer_owner
    if not isinstance(pad, Pad) or pad.mode != "constant":
        return None
    lead = len(pad.before) - op.window_rank
    sizes = [*pad.before, *pad.after]
    if not all(isinstance(size, int) and size >= 0 for size in sizes):
        return None
    if any((*pad.before[:lead], *pad.after[:lead])) or not _pads_with_own_value(op, pad):
        return None
    for name in ("before", "after"):
        pairs = zip(getattr(op, name), getattr(pad, name)[lead:], strict=True)
        op.set_attr(name, tuple(own + more for own, more in pairs))
    if isinstance(op, AvgPool):
        op.set_attr("count_include_pad", True)
    op.set_input(0, pad.inputs[0])
    return op.outputs[0]


def _pads_with_own_value(op: Windowed, pad: Pad) -> bool:
    """Return whether what `pad` adds has the effect of the op's own padding."""
    if isinstance(op, WindowReduce):
        same = pad.value == op.fill or _is_beaten(op, pad)
        return not op.ceil_mode and same
    if isinstance(op, AvgPool):
        counted = op.count_include_pad or not any((*op.before, *op.after))
        return not op.ceil_mode and counted and pad.value == 0
    return pad.value == 0 and is_finite(op.inputs[1])


def _is_beaten(op: WindowReduce, pad: Pad) -> bool:
    """Return whether each window of a max pool has an element of the image, none of which is below the pad's zeros."""
    (x,) = pad.inputs
    is_positive = x.producer_owner.op_name == "relu" or never_below_zero(x)
    if op.op_name != "max_pool" or pad.value != 0 or not is_positive:
        return False
    lead = len(pad.before) - op.window_rank
    own = (*op.before, *op.after)
    more = (*pad.before[lead:], *pad.after[lead:])
    most = (*op.kernel, *op.kernel)
    fits = all(a + b < k for a, b, k in zip(own, more, most, strict=True))
    return fits and set(op.dilations) == {1}
