"""AscendQuant, AscendDequant and AscendAntiQuant, which surround byte matmuls in quantized networks of GE."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import F32, S8
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext

_ROUNDED = {"Round": None, "Floor": "floor", "Ceil": "ceil", "Trunc": "trunc"}


def _quantize(node: NodeContext) -> Value:
    """x * scale + offset, rounded as `round_mode` says, in s8."""
    mode, dtype = node.attr_text("round_mode"), node.attr_dtype("dst_type")
    if mode not in _ROUNDED or dtype != S8:
        raise node.unsupported(f"round_mode {mode} to {dtype}")
    x = node.converted(node.tensor("x"), F32)
    x = node.helper("mul", x, node.constant(_scale(node), F32))
    offset = node.attr_float("offset")
    x = node.helper("add", x, node.constant(offset, F32)) if offset else x
    name = _ROUNDED[mode]
    x = node.helper(name, x) if name else x
    return node.make("quantize", x, node.constant(1.0, F32), dtype=dtype)


def _restore(node: NodeContext) -> Value:
    """(x + offset) * scale of bytes."""
    x = node.converted(node.tensor("x"), F32)
    offset = node.attr_float("offset")
    x = node.helper("add", x, node.constant(offset, F32)) if offset else x
    x = node.helper("mul", x, node.constant(_scale(node), F32))
    return node.converted(x, node.attr_dtype("dtype"))


def _scale(node: NodeContext) -> float:
    """The scale; with `sqrt_mode` the attribute is its root."""
    scale = node.attr_float("scale")
    return scale * scale if node.attr_bool("sqrt_mode") else scale


def _dequantize(node: NodeContext) -> Value:
    """Multiply accumulators by `deq_scale`, one for all or one per channel, and apply relu."""
    x = node.tensor("x")
    scale = _sums_scale(node, x)
    y = node.helper("mul", node.converted(x, F32), scale)
    if node.attr_bool("sqrt_mode"):
        y = node.helper("mul", y, scale)
    y = node.helper("relu", y) if node.attr_bool("relu_flag") else y
    return node.converted(y, node.attr_dtype("dtype"))


def _sums_scale(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """`deq_scale` as f32 so that it broadcasts to x: floats, or u64 whose lower 32 bits are those of an f32."""
    known = node.known("deq_scale")
    if known is not None and known.dtype.kind in "iu":
        bits = (known.astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        scale = node.constant(bits.view(np.float32), F32)
    elif node.tensor("deq_scale").details.dtype.is_float:
        scale = node.converted(node.tensor("deq_scale"), F32)
    else:
        raise node.unsupported("integers in deq_scale that are computed")
    dims, count = x.details.plain_dims, scale.details.elements
    if count == 1:
        return node.reshaped(scale, ())
    axes = {1, len(dims) - 1} if len(dims) > 3 else {len(dims) - 1}
    fitting = [axis for axis in axes if dims[axis] == count]
    if len(fitting) != 1:
        raise node.rule(
            "deq_scale must have one entry, or one per channel", f"{count} for {x.details}"
        )
    return node.reshaped(scale, tuple(count if i == fitting[0] else 1 for i in range(len(dims))))


HANDLERS: dict[str, Handler] = {
    "AscendQuant": _quantize,
    "AscendDequant": _dequantize,
    "AscendAntiQuant": _restore,
}
