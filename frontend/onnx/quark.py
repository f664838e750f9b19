"""AMD Quark's fake quantizers of blocks that share an exponent, BFP and MX, and QuantizeLinear of more types.

Semantics: the CPU kernels of amd-quark 0.13 (`quark/onnx/operators/custom_ops/src/{bfp,mx}/cpu`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...base.dtypes import BF16, F32, S32, S64, U8
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import OpBuilder, Value, like
from .casting import cast_to
from .qonnx import unit_of
from .quantize import dequantize, quantize, spread
from .scope import Handler, NodeContext

_SPECIAL = 255  # the exponent field of infinities and NaN
_SHIFT = 64  # keeps the exponent fields of small scales positive

ELEMENTS: dict[str, tuple[int, int, int, float]] = {
    "fp8_e5m2": (5, 2, 15, 57344.0),
    "fp8_e4m3": (4, 3, 8, 448.0),
    "fp6_e3m2": (3, 2, 4, 28.0),
    "fp6_e2m3": (2, 3, 2, 7.5),
    "fp4_e2m1": (2, 1, 2, 6.0),
    "int8": (0, 6, 0, 127.0),
}
"""element_dtype -> bits of the exponent and of the mantissa, the exponent of the largest number, that number."""


def _half_up(node: OpBuilder, x: GraphTensor) -> GraphTensor:
    low = node.helper("floor", x)
    goes_up = node.helper("ge", node.helper("sub", x, low), like(node, 0.5, x))
    return node.helper("select", goes_up, node.helper("add", low, like(node, 1, x)), low)


ROUNDINGS: tuple[Callable[[OpBuilder, GraphTensor], GraphTensor], ...] = (
    lambda node, x: node.helper(
        "mul", node.helper("sign", x), _half_up(node, node.helper("abs", x))
    ),
    _half_up,
    lambda node, x: node.helper("round", x),
)
"""Rounding functions by rounding_mode."""


def _rounded(node: NodeContext, x: GraphTensor) -> GraphTensor:
    mode = node.attr_int("rounding_mode", 0)
    if not 0 <= mode < len(ROUNDINGS):
        raise node.rule("rounding_mode must be 0, 1 or 2", str(mode))
    return ROUNDINGS[mode](node, x)


def _number(node: OpBuilder, value: int) -> GraphTensor:
    return node.constant(value, S32)


def _exponents(node: OpBuilder, x: GraphTensor, keeps_special: bool = False) -> GraphTensor:
    """The exponent fields of f32, s32; 0 for infinities and NaN unless they are kept."""
    bits = node.helper("bitcast", node.helper("abs", x), dtype=S32)
    field = node.helper("shr", bits, _number(node, 23))
    if keeps_special:
        return field
    special = node.helper("eq", field, _number(node, _SPECIAL))
    return node.helper("select", special, _number(node, 0), field)


def _power(node: OpBuilder, field: GraphTensor) -> GraphTensor:
    """2^(field - 127), which may be subnormal."""
    is_small = node.helper("lt", field, _number(node, 1))
    shifted = node.helper("add", field, _number(node, _SHIFT))
    bits = node.helper("shl", node.helper("select", is_small, shifted, field), _number(node, 23))
    power = node.helper("bitcast", bits, dtype=F32)
    small = node.helper("mul", power, node.constant(2.0**-_SHIFT, F32))
    return node.helper("select", is_small, small, power)


def _largest(node: OpBuilder, exponents: GraphTensor) -> GraphTensor:
    """The largest along the last axis."""
    return node.helper("reduce_max", exponents, axes=(exponents.details.rank - 1,), keep_dims=True)


def _in_blocks(
    node: NodeContext, default: int, quantized: Callable[[NodeContext, GraphTensor], GraphTensor]
) -> Value:
    """Apply a function to blocks [.., blocks, size] along an axis; the last one of a row is filled with zeros."""
    given = node.tensor(0)
    rank, block = given.details.rank, node.attr_int("block_size", default)
    if block < 1:
        raise node.rule("block_size must be positive", str(block))
    if given.details.elements == 1:
        return given
    x = node.converted(given, F32)
    axis = node.axis(node.attr_int("axis", 1), rank) if rank > 1 else 0
    swap = [rank - 1 if i == axis else axis if i == rank - 1 else i for i in range(rank)]
    x = x if axis == rank - 1 else node.transposed(x, swap)
    *outer, size = x.details.plain_dims
    if not isinstance(size, int):
        raise node.unsupported(f"blocks along an axis of the dynamic size {size}")
    blocks = -(-size // block)
    if missing := blocks * block - size:
        none = (0,) * rank
        x = node.helper("pad", x, before=none, after=(*none[1:], missing))
    parts = node.reshaped(x, (*outer, blocks, block))
    y = quantized(node, parts)
    special = node.helper("eq", _exponents(node, parts, True), _number(node, _SPECIAL))
    if node.attr_text("bfp_method", "") not in _PRIME:
        y = node.helper("select", special, parts, y)
    y = node.sliced(node.reshaped(y, (*outer, blocks * block)), rank - 1, 0, size)
    y = y if axis == rank - 1 else node.transposed(y, swap)
    return node.converted(y, given.details.dtype)


_PRIME = ("to_bfp_prime", "to_bfp_prime_shared")


def _bfp(node: NodeContext) -> Value:
    method = node.attr_text("bfp_method", "to_bfp")
    if method not in ("to_bfp", *_PRIME):
        raise node.rule("bfp_method must be to_bfp or to_bfp_prime", method)
    if node.attr_int("use_compiler_version_cpu_kernel", 0):
        raise node.unsupported("use_compiler_version_cpu_kernel=1")
    return _in_blocks(node, 8, _bfp_block if method == "to_bfp" else _prime_block)


def _mantissa_bits(node: NodeContext) -> int:
    """The bits of a mantissa: 1 of the sign and 8 of the exponent do not count."""
    bits = node.attr_int("bit_width", 16) - 9
    if not 0 < bits <= 23:
        raise node.rule("bit_width must be in [10, 32]", str(bits + 9))
    return bits


def _before(node: NodeContext, x: GraphTensor) -> GraphTensor:
    if not node.attr_int("convert_to_bfloat_before_bfp", 0):
        return x
    return node.converted(node.converted(x, BF16), F32)


def _scaled(node: NodeContext, x: GraphTensor, scale: GraphTensor, bits: int) -> GraphTensor:
    """X in steps of a scale, at most 2^bits - 1 of them."""
    y = _rounded(node, node.helper("div", x, scale))
    most = float((1 << bits) - 1)
    return node.helper("mul", node.helper("clamp", y, min=-most, max=most), scale)


def _bfp_block(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """All elements of a block have the exponent of the largest."""
    x, bits = _before(node, x), _mantissa_bits(node)
    shared = _largest(node, _exponents(node, x))
    field = node.helper("sub", shared, _number(node, bits - 1))
    return _scaled(node, x, _power(node, field), bits)


def _prime_block(node: NodeContext, x: GraphTensor) -> GraphTensor:
    """Parts of a block have exponents that are a few bits lower; subnormal numbers are 0."""
    x, bits = _before(node, x), _mantissa_bits(node)
    dims, part = x.details.plain_dims, node.attr_int("sub_block_size", 2)
    if part < 1 or dims[-1] % part:
        raise node.rule("sub_block_size must divide block_size", f"{part} and {dims[-1]}")
    parts = node.reshaped(x, (*dims[:-1], dims[-1] // part, part))
    exponents = _exponents(node, parts, keeps_special=True)
    own = _largest(node, exponents)
    shared = node.helper("reduce_max", own, axes=(own.details.rank - 2,), keep_dims=True)
    most = _number(node, (1 << node.attr_int("sub_block_shift_bits", 1)) - 1)
    shift = node.helper("min", node.helper("sub", shared, own), most)
    field = node.helper("sub", node.helper("sub", shared, shift), _number(node, bits - 1))
    zero = like(node, 0, parts)
    parts = node.helper("select", node.helper("eq", exponents, _number(node, 0)), zero, parts)
    y = _scaled(node, parts, _power(node, field), bits)
    special = node.helper("eq", shared, _number(node, _SPECIAL))
    return node.reshaped(node.helper("select", special, like(node, np.nan, y), y), dims)


def _mx(node: NodeContext) -> Value:
    kind = node.attr_text("element_dtype", "int8")
    if kind not in ELEMENTS:
        raise node.rule(f"element_dtype must be one of {', '.join(ELEMENTS)}", kind)
    exponent, mantissa, largest, most = ELEMENTS[kind]

    def quantized(node: NodeContext, x: GraphTensor) -> GraphTensor:
        shared = _largest(node, _exponents(node, x))
        scale = _power(node, node.helper("sub", shared, _number(node, largest)))
        y = node.helper("div", x, scale)
        if exponent:
            smallest = 2 - (1 << (exponent - 1)) - mantissa
            unit = unit_of(node, y, mantissa, smallest)
            y = node.helper("mul", node.helper("round", node.helper("div", y, unit)), unit)
            y = node.helper("clamp", y, min=-most, max=most)
        else:  # integers with an implicit scale
            step = like(node, 2.0**-mantissa, y)
            y = node.helper(
                "clamp", _rounded(node, node.helper("div", y, step)), min=-most - 1, max=most
            )
            y = node.helper("mul", y, step)
        return node.helper("mul", y, scale)

    return _in_blocks(node, 32, quantized)


def _extended_quantize(node: NodeContext) -> Value:
    """QuantizeLinear to integers of up to 32 bits or to floats, whose zero point is added before they are rounded."""
    dtype = node.details(2).dtype if node.has(2) else U8
    if not dtype.is_float and dtype.bits <= 16:
        return quantize(node)
    x = node.converted(node.tensor(0), F32)
    dims = x.details.plain_dims
    y = node.helper("div", x, node.converted(spread(node, 1, dims), F32))
    if dtype.is_float:
        if node.has(2):
            y = node.helper("add", y, node.converted(spread(node, 2, dims), F32))
        return (
            cast_to(node, y, dtype)
            if dtype.is_storage and dtype.bits < 16
            else node.converted(y, dtype)
        )
    low, high = dtype.limits
    y = node.converted(node.helper("round", y), S64)
    y = node.helper("add", y, node.converted(spread(node, 2, dims), S64))
    bounds = (node.constant(limit, S64) for limit in (high, low))
    y = node.helper("max", node.helper("min", y, next(bounds)), next(bounds))
    return node.converted(y, dtype)


def _extended_dequantize(node: NodeContext) -> Value:
    """(x - zero point) * scale of the same types, the difference exact."""
    x = node.tensor(0)
    dtype, dims = x.details.dtype, x.details.plain_dims
    if not dtype.is_float and dtype.bits <= 16:
        return dequantize(node)
    wide = F32 if dtype.is_float else S64
    x = node.converted(x, wide)
    if node.has(2):
        x = node.helper("sub", x, node.converted(spread(node, 2, dims), wide))
    scale = spread(node, 1, dims)
    y = node.helper("mul", node.converted(x, F32), node.converted(scale, F32))
    return node.converted(y, scale.details.dtype)


HANDLERS: dict[str, Handler] = {
    "com.amd.quark::ExtendedQuantizeLinear": _extended_quantize,
    "com.amd.quark::ExtendedDequantizeLinear": _extended_dequantize,
    "com.amd.quark::BFPQuantizeDequantize": _bfp, "com.amd.quark::MXQuantizeDequantize": _mx,
    "com.vai.quantize::VitisQuantizeLinear": _extended_quantize,
    "com.vai.quantize::VitisDequantizeLinear": _extended_dequantize, "com.vai.quantize::BFPFixNeuron": _bfp,
    "com.vai.quantize::MXFixNeuron": _mx,
}  # fmt: skip
