"""Operators of `quantized_decomposed`, which PyTorch's quantization of exported programs writes.

Meanings from `torch.ao.quantization.fx._decomposed`. Bytes here are plain tensors of integers.
"""

from __future__ import annotations

import numpy as np

from ...base.dtypes import F32, F64, S32, S64, DType
from ...graph_ir.ir.graph import GraphTensor
from ..torch_calls.call import Value
from .node import Node, Read

_SMALL = 16
"""Bits of the widest integers that have `quantize`."""


def _quantize(node: Node) -> Value:
    """round(x * (1 / scale)) + zero point within the limits; the reciprocal of a number is taken in f64."""
    x, dtype = node.tensor_of(), node.attr_dtype("dtype")
    low, high = _limits(node)
    if dtype.kind not in ("int", "uint") or dtype.bits > _SMALL:
        raise node.unsupported(f"dtype={dtype}")
    scale, zero = _parameters(node, x)
    inverse = node.helper("div", node.constant(1.0, scale.details.dtype), scale)
    steps = node.helper("mul", node.converted(x, F32), node.converted(inverse, F32))
    one, zero = node.constant(1.0, F32), node.converted(zero, dtype)
    if (low, high) == dtype.limits:
        return node.make("quantize", steps, one, zero, dtype=dtype.name)
    made = node.helper("quantize", steps, one, zero, dtype=dtype.name)
    made = node.helper("max", made, node.constant(max(low, dtype.limits[0]), dtype))
    return node.make("min", made, node.constant(min(high, dtype.limits[1]), dtype))


def _dequantize(node: Node) -> Value:
    """(x - zero point) * scale in f32, or in `out_dtype`."""
    x, (low, high) = node.tensor_of(), _limits(node)
    result, _ = node.dtype("out_dtype") or F32, node.attr_dtype("dtype")
    least, most = x.details.dtype.limits
    if low > high or result != F32 or x.details.dtype.bits > S32.bits:
        raise node.unsupported(f"bytes from {low} to {high} as {result}")
    scale, zero = _parameters(node, x)
    fits = x.details.dtype if least <= 0 <= most else S32
    return node.make("dequantize", x, node.converted(scale, F32), node.converted(zero, fits))


def _parameters(node: Node, x: GraphTensor) -> tuple[GraphTensor, GraphTensor]:
    """Scale and zero point as they broadcast to x: numbers, one of each in tensors, or one per index of an axis."""
    if "channel" not in node.type:
        scale, zero = node.operand("scale"), node.operand("zero_point")
        return _number(node, scale, F64), _number(node, zero, S64)
    scale, zero_point = node.tensor_of("scales"), node.optional("zero_points")
    axis, rank = node.attr_int("axis"), x.details.rank
    shape = tuple(scale.details.elements if i == axis % rank else 1 for i in range(rank))
    zero = zero_point if zero_point is not None else node.constant(np.zeros(shape, np.int64), S64)
    return node.reshaped(scale, shape), node.reshaped(zero, shape)


def _number(node: Node, value: Value, dtype: DType) -> GraphTensor:
    """A number, or the only element of a tensor."""
    if isinstance(value, GraphTensor):
        return node.converted(node.reshaped(value, ()), dtype)
    return node.constant(value, dtype)


def _limits(node: Node) -> tuple[int, int]:
    return node.attr_int("quant_min"), node.attr_int("quant_max")


def _choose(node: Node) -> Value:
    """Scale (f64) and zero point (s64) of the range that a tensor has, 0 in it."""
    x, (low, high) = node.converted(node.tensor_of(), F32), _limits(node)
    node.attr_dtype("dtype")
    axes, nothing = tuple(range(x.details.rank)), node.constant(0.0, F32)
    least, most = (
        node.helper(choose, node.helper(f"reduce_{choose}", x, axes=axes, keep_dims=False), nothing)
        for choose in ("min", "max")
    )
    eps, steps = node.constant(node.attr_float("eps"), F32), node.constant(float(high - low), F32)
    is_symmetric = "symmetric" in node.type
    if is_symmetric:
        most = node.helper("max", node.helper("neg", least), most)
        steps = node.constant((high - low) / 2, F32)
    spread = most if is_symmetric else node.helper("sub", most, least)
    scale = node.helper("max", node.helper("div", spread, steps), eps)
    if is_symmetric:
        zero = node.constant(128 if low >= 0 else 0, S64)
    else:
        whole = node.helper("round", node.helper("div", least, scale))
        zero = node.helper("sub", node.constant(float(low), F32), whole)
        zero = node.converted(node.helper("clamp", zero, min=float(low), max=float(high)), S64)
    return [node.reshaped(node.converted(scale, F64), (1,)), node.reshaped(zero, (1,))]


def _families() -> dict[str, Read]:
    found: dict[str, Read] = {}
    for way in ("tensor", "channel"):
        found[f"quantize_per_{way}"], found[f"dequantize_per_{way}"] = _quantize, _dequantize
    return found | dict.fromkeys(("choose_qparams", "choose_qparams_symmetric"), _choose)


HANDLERS: dict[str, Read] = {
    f"quantized_decomposed::{name}": read for name, read in _families().items()
}
