"""Functions of signs and NaN: sign bits, magnitudes with another sign, extremes that ignore NaN."""

from __future__ import annotations

from ....base.dtypes import BOOL, S16, S32, S64, U8
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like

_BITS = {2: S16, 4: S32, 8: S64}


def sign_bit(node: OpBuilder, x: Tensor) -> Tensor:
    """Return whether each element is negative, -0.0 and negative NaN too."""
    dtype = x.details.dtype
    if dtype.is_float:
        x = node.helper("bitcast", x, dtype=_BITS[dtype.numpy.itemsize].name)
    if dtype in (BOOL, U8):
        return node.helper("ne", x, x)
    return node.helper("lt", x, like(node, 0, x))


def copy_sign(node: OpBuilder, x: Tensor, y: Tensor) -> Tensor:
    """|x| with the sign of y."""
    size = node.helper("abs", x)
    return node.make("select", sign_bit(node, y), node.helper("neg", size), size)


def sign(node: OpBuilder, x: Tensor) -> Tensor:
    """-1, 0 or 1; 0 for NaN."""
    if not x.details.dtype.is_float:
        return node.make("sign", x)
    nothing = node.helper("isnan", x)
    return node.make("select", nothing, like(node, 0, x), node.helper("sign", x))


def larger_number(node: OpBuilder, x: Tensor, y: Tensor, op_name: str = "max") -> Tensor:
    """The larger of two elements, or by `op_name` the smaller; of a number and NaN, the number."""
    if not x.details.dtype.is_float:
        return node.make(op_name, x, y)
    both = node.helper(op_name, x, y)
    rest = node.helper("select", node.helper("isnan", y), x, both)
    return node.make("select", node.helper("isnan", x), y, rest)
