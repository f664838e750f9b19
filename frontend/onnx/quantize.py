"""Quantized tensors: QuantizeLinear, DequantizeLinear and matmuls of 8-bit integers."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import BF16, F16, F32, S8, S32, U8, DType, by_name
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.rewriting.values import constant_value
from ..correspondence.compositions.contraction import matmul
from ..correspondence.compositions.windows import windowed
from ..op_builder import Value
from .casting import cast_to
from .reader import DEFAULT_DOMAINS
from .scope import Handler, NodeContext
from .tensors import to_dtype
from .windows import centered, convolution_attrs


def spread(node: NodeContext, index: int, dims: tuple[int, ...]) -> GraphTensor:
    """A scale or zero point so that it broadcasts to `dims`: one for all, one per slice of `axis`, or per block."""
    x = node.tensor(index)
    given = x.details.plain_dims
    if x.details.elements == 1 and len(given) < 2:
        return shaped(node, index, ())
    axis = node.axis(node.attr_int("axis", 1), len(dims))
    if given == (dims[axis],):
        return shaped(node, index, tuple(d if i == axis else 1 for i, d in enumerate(dims)))
    block = node.attr_int("block_size", 0)
    blocks = tuple(-(-d // max(block, 1)) if i == axis else d for i, d in enumerate(dims))
    if block < 1 or given != blocks:
        raise node.rule(
            f"scales must be one, {dims[axis]} along axis {axis}, or one per block of block_size",
            f"{x.details}, block_size {block}",
        )
    known = node.known(index)
    if known is not None:
        each = np.repeat(known, block, axis).take(np.arange(dims[axis]), axis)
        return node.constant(each, x.details.dtype)
    apart = node.reshaped(x, (*given[: axis + 1], 1, *given[axis + 1 :]))
    copies = node.helper("broadcast", apart, shape=(*given[: axis + 1], block, *given[axis + 1 :]))
    whole = node.reshaped(copies, (*given[:axis], given[axis] * block, *given[axis + 1 :]))
    return node.sliced(whole, axis, 0, dims[axis])


def shaped(node: NodeContext, index: int, dims: tuple[int, ...]) -> GraphTensor:
    """Input `index` in another shape; a constant where it is known."""
    known = node.known(index)
    if known is None or known.shape == dims:
        return node.reshaped(node.tensor(index), dims)
    return node.constant(known.reshape(dims), node.details(index).dtype)


def rounded(node: NodeContext, x: GraphTensor, zero: GraphTensor | None, dtype: DType) -> Value:
    """X rounded to nearest integers, ties to even, plus the zero point, saturated to `dtype`."""
    one = node.constant(np.ones((), x.details.dtype.numpy), x.details.dtype)
    zeros = [] if zero is None else [zero]
    return node.make("quantize", x, one, *zeros, dtype=dtype.name)


def _in_bytes(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """Integers of 2 and 4 bits as bytes; a constant stays one."""
    dtype, known = x.details.dtype, constant_value(x)
    if dtype.is_float or not dtype.is_storage:
        return x
    if known is None:
        return node.converted(x, dtype.accumulator)
    return node.constant(known.astype(dtype.accumulator.numpy), dtype.accumulator)


def _integer(node: NodeContext, dtype: DType) -> DType:
    if dtype.kind not in ("int", "uint") or dtype.bits > 16:
        raise node.unsupported(f"an output of element type {dtype}")
    return dtype


def quantize(node: NodeContext) -> Value:
    """QuantizeLinear."""
    x, given = node.tensor(0), node.attr_int("output_dtype", 0)
    dtype = node.details(2).dtype if node.has(2) else U8
    if node.type == "TRT_FP8QuantizeLinear":
        dtype = by_name("f8e4m3fn")
    if given:
        dtype = to_dtype(f"QuantizeLinear '{node.name}'", given)
    x = node.converted(x, x.details.dtype if x.details.dtype.is_float else F32)
    precision = _precision(node)
    if dtype.is_float:  # whose zero point, if there is one, must be 0
        return cast_to(node, _quotient(node, x, precision or x.details.dtype), dtype)
    attrs = {"dtype": _integer(node, dtype).accumulator, "bits": dtype.bits}
    scale, *zero = _parameters(node, x.details.plain_dims)
    if precision in (F16, BF16):
        x = _quotient(node, x, precision)
        scale = node.constant(np.ones((), x.details.dtype.numpy), x.details.dtype)
    y = node.helper("quantize", x, scale, *zero, **attrs)
    return node.make("cast", y, dtype=dtype) if dtype.is_storage else y


def _precision(node: NodeContext) -> DType | None:
    """Return the type that QuantizeLinear divides in; None before opset 23 and for ONNX Runtime's own op.

    It is not specified there, and ONNX Runtime divides in f32. Powers of two (e8m0) are not a type to divide in: f32
    too.
    """
    given = node.attr_int("precision", 0)
    if given:
        return to_dtype(f"QuantizeLinear '{node.name}'", given)
    scale = node.details(1).dtype
    if node.opset < 23 or node.node.domain not in DEFAULT_DOMAINS:
        return None
    return scale if scale in (F16, BF16) else F32


def _quotient(node: NodeContext, x: GraphTensor, precision: DType) -> GraphTensor:
    """Return x divided by its scale in a type of floats, to which both are rounded first.

    The quotient of 16-bit floats is rounded by a cast: kernels keep results of other ops in f32 where they are fused.
    """
    scale = node.converted(spread(node, 1, x.details.plain_dims), precision)
    x = node.converted(x, precision)
    wide = precision.accumulator
    return node.converted(
        node.helper("div", node.converted(x, wide), node.converted(scale, wide)), precision
    )


def dequantize(node: NodeContext) -> Value:
    """DequantizeLinear: the scaled value, computed in f32 as in ONNX Runtime, is rounded to the result dtype once."""
    x = node.tensor(0)
    scale, *zero = _parameters(node, x.details.plain_dims)
    given = node.attr_int("output_dtype", 0)
    wanted = to_dtype(f"DequantizeLinear '{node.name}'", given) if given else scale.details.dtype
    if x.details.dtype.is_float:
        value = node.helper("mul", node.converted(x, F32), node.converted(scale, F32))
        return node.converted(value, wanted)
    scale = scale if scale.details.dtype == wanted else node.converted(scale, F32)
    return node.converted(node.make("dequantize", _in_bytes(node, x), scale, *zero), wanted)


def _of_tensorrt(node: NodeContext) -> Value:
    """TensorRT's DequantizeLinear: nvidia-modelopt gives it weights of 4 bits before they are rounded."""
    x = node.tensor(0)
    if x.details.dtype not in (F32, F16, BF16):
        return dequantize(node)
    scale = node.tensor(1)
    return node.make("dequantize", node.helper("quantize", x, scale, dtype=S8, bits=4), scale)


def _parameters(node: NodeContext, dims: tuple[int, ...]) -> list[GraphTensor]:
    """The scale and, if it is given, the zero point, so that they broadcast to `dims`."""
    return [_in_bytes(node, spread(node, index, dims)) for index in (1, 2) if node.has(index)]


def per_row(node: NodeContext, index: int, rank: int) -> GraphTensor:
    """A parameter of the left operand: for all of it, or for each row."""
    x = node.tensor(index)
    if x.details.elements == 1:
        return node.reshaped(x, ())
    if x.details.rank == 1 and rank > 1:
        return node.reshaped(x, (*x.details.plain_dims, 1))
    return x


def per_column(node: NodeContext, index: int) -> GraphTensor:
    """A parameter of the right operand: for all of it, or for each column."""
    x = node.tensor(index)
    return node.reshaped(x, ()) if x.details.elements == 1 else x


def integers_of(node: NodeContext, index: int, zero: GraphTensor | None) -> GraphTensor:
    """Input `index` as s32, minus its zero point."""
    x = node.converted(node.tensor(index), S32)
    return x if zero is None else node.helper("sub", x, node.converted(zero, S32))


def _matmul_integer(node: NodeContext) -> Value:
    rank = node.details(0).rank
    a = integers_of(node, 0, per_row(node, 2, rank) if node.has(2) else None)
    b = integers_of(node, 1, per_column(node, 3) if node.has(3) else None)
    return matmul(node, a, b)


def requantized(node: NodeContext, y: GraphTensor, scales: list[GraphTensor]) -> GraphTensor:
    """The s32 result times the scales of both operands, divided by that of the result, in f32."""
    a, b, c = (node.converted(scale, F32) for scale in scales)
    factor = node.helper("div", node.helper("mul", a, b), c)
    return node.helper("mul", node.converted(y, F32), factor)


def _quantized_matmul(node: NodeContext) -> Value:
    rank = node.details(0).rank
    a = integers_of(node, 0, per_row(node, 2, rank))
    b = integers_of(node, 3, per_column(node, 5))
    scales = [per_row(node, 1, rank), per_column(node, 4), per_row(node, 6, rank)]
    real = requantized(node, matmul(node, a, b), scales)
    dtype = _integer(node, node.details(7).dtype)
    return rounded(node, real, per_row(node, 7, rank), dtype)


def _quantized_convolution(node: NodeContext) -> Value:
    return _convolved(node, centered(node, 0, 2))


def _convolution_by_layout(node: NodeContext) -> Value:
    """ONNX Runtime's own, whose image may have its channels last."""
    x = centered(node, 0, 2)
    if not node.attr_int("channels_last", 0):
        return _convolved(node, x)
    rank = x.details.rank
    y = _convolved(node, node.transposed(x, (0, rank - 1, *range(1, rank - 1))))
    return node.transposed(node.scope.as_tensor(y), (0, *range(2, rank), 1))


def _convolved(node: NodeContext, x: GraphTensor) -> Value:
    """The convolution of an image, minus its zero point, with the other operands of the node."""
    w = centered(node, 3, 5)
    y = windowed(node, "convolution", x, w, **convolution_attrs(node, x, w))
    per_channel = (y.details.plain_dims[1],) + (1,) * (y.details.rank - 2)
    if node.has(8):
        y = node.helper("add", y, node.reshaped(node.tensor(8), per_channel))
    scales = [node.reshaped(node.tensor(1), ()), node.tensor(4), node.reshaped(node.tensor(6), ())]
    one = scales[1].details.elements == 1
    scales[1] = node.reshaped(scales[1], () if one else per_channel)
    real = requantized(node, y, scales)
    return rounded(
        node, real, node.reshaped(node.tensor(7), ()), _integer(node, node.details(7).dtype)
    )


HANDLERS: dict[str, Handler] = {
    "QuantizeLinear": quantize, "DequantizeLinear": dequantize, "trt::TRT_FP8QuantizeLinear": quantize,
    "trt::TRT_FP8DequantizeLinear": dequantize, "trt::DequantizeLinear": _of_tensorrt,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _quantized_matmul, "QLinearConv": _quantized_convolution,
    "com.microsoft::QLinearConv": _convolution_by_layout,
}  # fmt: skip
