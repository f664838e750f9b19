"""ONNX Runtime's matmuls and elementwise ops of 8-bit integers."""

from __future__ import annotations

from ...base.dtypes import F32, S32
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.contraction import matmul
from ..correspondence.compositions.dynamic_range import bytes_by_range
from ..op_builder import Value
from .quantize import dequantize, integers_of, per_column, per_row, quantize, rounded, shaped
from .scope import Handler, NodeContext


def _gemm(node: NodeContext) -> Value:
    """alpha * (A' * B' + C), A' and B' the dequantized operands; f32 where no scale of the result is given."""
    flags = [bool(node.attr_int(name, 0)) for name in ("transA", "transB")]
    a = integers_of(node, 0, shaped(node, 2, ()))
    b_zero = per_column(node, 5)
    if flags[1] and b_zero.details.rank:
        b_zero = node.reshaped(b_zero, (b_zero.details.elements, 1))
    b = integers_of(node, 3, b_zero)
    y = node.helper("matmul_core", a, b, transpose_a=flags[0], transpose_b=flags[1])
    if node.has(6):
        y = node.helper("add", y, node.converted(node.tensor(6), S32))
    alpha = node.constant(node.attr_float("alpha", 1.0), F32)
    factor = node.helper("mul", shaped(node, 1, ()), per_column(node, 4))
    factor = node.helper("mul", factor, alpha)
    if not node.has(7):
        return node.make("mul", node.converted(y, F32), factor)
    factor = node.helper("div", factor, shaped(node, 7, ()))
    zero = shaped(node, 8, ()) if node.has(8) else None
    dtype = node.details(8 if node.has(8) else 0).dtype
    return rounded(node, node.helper("mul", node.converted(y, F32), factor), zero, dtype)


def _scaled_matmul(
    node: NodeContext, a: GraphTensor, b: GraphTensor, a_scale: GraphTensor, b_scale: GraphTensor
) -> GraphTensor:
    factor = node.helper("mul", a_scale, b_scale)
    return node.helper("mul", node.converted(matmul(node, a, b), F32), factor)


def _with_bias(node: NodeContext, y: GraphTensor, index: int) -> Value:
    return node.make("add", y, node.tensor(index)) if node.has(index) else y


def _matmul_to_float(node: NodeContext) -> Value:
    rank = node.details(0).rank
    a = integers_of(node, 0, per_row(node, 4, rank) if node.has(4) else None)
    b = integers_of(node, 1, per_column(node, 5) if node.has(5) else None)
    return _with_bias(
        node, _scaled_matmul(node, a, b, per_row(node, 2, rank), per_column(node, 3)), 6
    )


def _dynamic_matmul(node: NodeContext) -> Value:
    """A is quantized to u8 by its range, which includes 0."""
    quantized, scale, middle = bytes_by_range(node, node.tensor(0))
    a = node.helper("sub", node.converted(quantized, S32), node.converted(middle, S32))
    b = integers_of(node, 1, per_column(node, 3) if node.has(3) else None)
    return _with_bias(node, _scaled_matmul(node, a, b, scale, per_column(node, 2)), 4)


def _multiply(node: NodeContext) -> Value:
    """Multiply elements, minus their zero points, in s32."""
    a, b = (
        integers_of(node, i, shaped(node, i + 1, ()) if node.has(i + 1) else None) for i in (0, 2)
    )
    return node.make("mul", a, b)


def _sum(node: NodeContext) -> Value:
    """Sums along `axes` in s32."""
    x = integers_of(node, 0, None)
    axes = tuple(node.axis(axis, x.details.rank) for axis in node.attr_ints("axes"))
    return node.make("reduce_sum", x, axes=axes, keep_dims=bool(node.attr_int("keepdims", 1)))


HANDLERS: dict[str, Handler] = {
    "com.microsoft::QGemm": _gemm, "com.microsoft::MatMulIntegerToFloat": _matmul_to_float,
    "com.microsoft::DynamicQuantizeMatMul": _dynamic_matmul, "com.microsoft::MulInteger": _multiply,
    "com.microsoft::ReduceSumInteger": _sum, "com.microsoft::QuantizeLinear": quantize,
    "com.microsoft::DequantizeLinear": dequantize,
}  # fmt: skip
