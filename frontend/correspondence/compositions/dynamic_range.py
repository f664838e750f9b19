"""Floats as bytes by the range that they turn out to have, which includes 0."""

from __future__ import annotations

from ....base.dtypes import F32, U8
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder


def bytes_by_range(node: OpBuilder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x in u8, and the scale and zero point of all its elements; x of zeros has scale 1."""
    zero, axes = node.constant(0.0, F32), tuple(range(x.details.rank))
    low = node.helper("min", node.helper("reduce_min", x, axes=axes), zero)
    high = node.helper("max", node.helper("reduce_max", x, axes=axes), zero)
    steps = node.helper("div", node.helper("sub", high, low), node.constant(255.0, F32))
    scale = node.helper("select", node.helper("eq", low, high), node.constant(1.0, F32), steps)
    zero_point = node.helper("neg", node.helper("div", low, scale))
    whole = node.helper("round", node.helper("clamp", zero_point, min=0.0, max=255.0))
    middle = node.converted(whole, U8)
    return node.helper("quantize", x, scale, middle, dtype=U8), scale, middle


def rounded_by_range(node: OpBuilder, x: Tensor) -> Tensor:
    """The floats that these bytes stand for."""
    return node.helper("dequantize", *bytes_by_range(node, x))
