"""QONNX: quantizers whose results stay floats, as Brevitas writes them (Quant, FloatQuant, Trunc, BipolarQuant).

Semantics: qonnx.custom_op.general of the package qonnx 1.0. Integers of at most 16 bits become integers of a type of
graphc on the way, so that their matmuls are integer matmuls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import F32, S8, S16, S32, U8, U16, DType
from ...graph_ir.ir.graph import Array, GraphTensor
from ..op_builder import OpBuilder, Value, like
from .scope import Handler, NodeContext

DOMAINS = ("qonnx.custom_op.general", "onnx.brevitas")

_SMALLEST_EXPONENT = -126  # of a normal f32


def _away(step: str, shift: float) -> Callable[[OpBuilder, GraphTensor], GraphTensor]:
    """sign(x) * step(|x| + shift)."""

    def rounded(node: OpBuilder, x: GraphTensor) -> GraphTensor:
        size = node.helper("abs", x)
        size = node.helper("add", size, like(node, shift, size)) if shift else size
        return node.helper("mul", node.helper("sign", x), node.helper(step, size))

    return rounded


def _plainly(step: str) -> Callable[[OpBuilder, GraphTensor], GraphTensor]:
    return lambda node, x: node.helper(step, x)


ROUNDINGS: dict[str, Callable[[OpBuilder, GraphTensor], GraphTensor]] = {
    **dict.fromkeys(("ROUND", "HALF_EVEN"), _plainly("round")),
    "CEIL": _plainly("ceil"),
    "FLOOR": _plainly("floor"),
    "DOWN": _plainly("trunc"),
    "UP": _away("ceil", 0.0),
    "HALF_UP": _away("floor", 0.5),
    "HALF_DOWN": _away("ceil", -0.5),
}
"""Rounding functions by the name of the mode, in capitals."""


def _rounding(node: NodeContext, default: str, prefix: str = "") -> str:
    name = node.attr_text(f"{prefix}rounding_mode", default).upper()
    if name not in ROUNDINGS:
        raise node.rule(f"rounding_mode must be one of {', '.join(ROUNDINGS)}", name)
    return name


def _number(node: NodeContext, index: int, what: str) -> float:
    """An input that is one number, known at compile time."""
    value = node.array(index, what)
    if value.size != 1:
        raise node.unsupported(f"{what} of shape {list(value.shape)}")
    return float(value.reshape(()))


def _limits(bits: int, signed: bool, narrow: bool) -> tuple[int, int]:
    """The smallest and the largest integer."""
    if signed:
        return -(1 << (bits - 1)) + narrow, (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1 - narrow


def _quotients(node: NodeContext) -> tuple[GraphTensor, GraphTensor, GraphTensor]:
    """X / scale + zero point in f32, the scale and the zero point."""
    x, scale, zero = (node.converted(node.tensor(i), F32) for i in range(3))
    y = node.helper("div", x, scale)
    known = node.known(2)
    return (
        (y if known is not None and not known.any() else node.helper("add", y, zero)),
        scale,
        zero,
    )


def _quant(node: NodeContext) -> Value:
    """Quant and IntQuant: (round(clamp(x / scale + zero point)) - zero point) * scale."""
    x, scale, zero = (node.converted(node.tensor(i), F32) for i in range(3))
    return quantized(node, node, x, (scale, zero), 1, "")


def quantized(
    node: NodeContext,
    build: OpBuilder,
    x: GraphTensor,
    parameters: tuple[GraphTensor, GraphTensor],
    first: int,
    prefix: str,
) -> GraphTensor:
    """Return x rounded by a quantizer with these parameters, which are a node's inputs from `first` on.

    The bit width follows them; names of attributes have the prefix. The result is built by `build`.
    """
    (scale, zero), middle = parameters, node.known(first + 1)
    y = build.helper("div", x, scale)
    y = y if middle is not None and not middle.any() else build.helper("add", y, zero)
    bits = int(_number(node, first + 2, "a bit width"))
    signed = bool(node.attr_int(f"{prefix}signed", 1))
    if bits < 1:
        raise node.rule("the bit width must be positive", str(bits))
    if bits == 1 and signed:
        return _scaled(build, _signs(build, y), zero, scale)
    narrow = node.attr_int(f"{prefix}narrow", node.attr_int(f"{prefix}narrow_range", 0))
    low, high = _limits(bits, signed, bool(narrow))
    y = build.helper("clamp", y, min=float(low), max=float(high))
    mode, dtype = _rounding(node, "ROUND", prefix), _integer_type(bits, signed)
    middle = _whole(middle, dtype)
    if mode in ("ROUND", "HALF_EVEN") and dtype is not None and middle is not None:
        q = build.helper("quantize", y, build.constant(1.0, F32), dtype=dtype.name)
        return build.make("dequantize", q, scale, build.constant(middle, dtype))
    return _scaled(build, ROUNDINGS[mode](build, y), zero, scale)


def _integer_type(bits: int, signed: bool) -> DType | None:
    """The type of that many bits; None where there is none."""
    if bits <= 8:
        return S8 if signed else U8
    if bits <= 16:
        return S16 if signed else U16
    return None


def _whole(zero: Array | None, dtype: DType | None) -> Array | None:
    """A known zero point as integers of a type; None where it is not of these."""
    if zero is None or dtype is None:
        return None
    low, high = dtype.limits
    fits = (zero == np.rint(zero)) & (low <= zero) & (zero <= high)
    return zero.astype(dtype.numpy) if fits.all() else None


def _scaled(node: OpBuilder, y: GraphTensor, zero: GraphTensor, scale: GraphTensor) -> GraphTensor:
    return node.make("mul", node.helper("sub", y, zero), scale)


def _signs(node: OpBuilder, x: GraphTensor) -> GraphTensor:
    """1 where x is at least 0, else -1."""
    one = like(node, 1, x)
    return node.helper(
        "select", node.helper("ge", x, like(node, 0, x)), one, node.helper("neg", one)
    )


def _bipolar(node: NodeContext) -> Value:
    x = node.converted(node.tensor(0), F32)
    return node.make("mul", _signs(node, x), node.converted(node.tensor(1), F32))


def _trunc(node: NodeContext) -> Value:
    """Trunc: integers without their lowest bits. Version 2 has the scale of the result as input 4."""
    y, scale, zero = _quotients(node)
    y, mode = node.helper("round", y), _rounding(node, "FLOOR")
    if not node.has(5):
        lost = _number(node, 3, "an input bit width") - _number(node, 4, "an output bit width")
        y = node.helper("div", y, node.constant(2.0**lost, F32))
        return _scaled(node, ROUNDINGS[mode](node, y), zero, scale)
    wide, given = node.array(4, "output scale"), node.array(1, "scale")
    divisor = node.constant((2.0 ** np.round(np.log2(wide / given))).astype(np.float32), F32)
    y = node.helper("div", y, divisor)
    signed, narrow = (
        bool(node.attr_int(name, default)) for name, default in (("signed", 1), ("narrow", 0))
    )
    low, high = _limits(int(_number(node, 5, "an output bit width")), signed, narrow)
    y = ROUNDINGS[mode](node, node.helper("clamp", y, min=float(low), max=float(high)))
    return _scaled(
        node, y, node.helper("div", zero, divisor), node.constant(wide.astype(np.float32), F32)
    )


def _float_quant(node: NodeContext) -> Value:
    """FloatQuant: x / scale rounded to floats of a few bits, times the scale."""
    x, scale = (node.converted(node.tensor(i), F32) for i in range(2))
    exponent, mantissa = (
        int(_number(node, i, f"a width of {what}"))
        for i, what in ((2, "exponents"), (3, "mantissas"))
    )
    bias = _number(node, 4, "an exponent bias") if node.has(4) else 2.0 ** (exponent - 1) - 1
    smallest = int(1 - bias - mantissa)
    if smallest < _SMALLEST_EXPONENT or bias != int(bias):
        raise node.unsupported(
            f"floats of {exponent} and {mantissa} bits with the exponent bias {bias:g}"
        )
    largest = (2.0 - 2.0**-mantissa) * 2.0 ** (2.0**exponent - 1 - bias)
    if node.has(5):
        largest = min(largest, _number(node, 5, "a largest value"))
    x = node.helper("div", x, scale)
    unit = unit_of(node, x, mantissa, smallest)
    y = ROUNDINGS[_rounding(node, "ROUND")](node, node.helper("div", x, unit))
    y = node.helper("mul", unit, y)
    z = node.helper("clamp", y, min=-largest, max=largest)
    if not node.attr_int("saturation", 1):
        z = _beyond(node, y, z)
    return node.make("mul", z, scale)


def unit_of(node: NodeContext, x: GraphTensor, mantissa: int, smallest: int) -> GraphTensor:
    """2^(floor(log2(|x|)) - mantissa), at least 2^smallest, from the bits of x."""

    def number(value: int) -> GraphTensor:
        return node.constant(value, S32)

    bits = node.helper("bitcast", node.helper("abs", x), dtype=S32)
    exponent = node.helper("shr", bits, number(23))
    exponent = node.helper(
        "max", node.helper("sub", exponent, number(mantissa)), number(smallest + 127)
    )
    return node.helper("bitcast", node.helper("shl", exponent, number(23)), dtype=F32)


def _beyond(node: NodeContext, y: GraphTensor, bounded: GraphTensor) -> GraphTensor:
    """Restore infinity or NaN for values beyond the largest number, which do not saturate."""
    has_infinity = node.attr_int("has_inf", 0)
    if not has_infinity and not node.attr_int("has_nan", 0):
        raise node.rule("floats that do not saturate must have infinities or NaN", "neither")
    infinite = node.helper("mul", node.helper("sign", y), like(node, np.inf, y))
    other = infinite if has_infinity else like(node, np.nan, y)
    return node.helper("select", node.helper("eq", y, bounded), bounded, other)


_KINDS: dict[str, Any] = {
    "BipolarQuant": _bipolar,
    "FloatQuant": _float_quant,
    "IntQuant": _quant,
    "Quant": _quant,
    "Trunc": _trunc,
}

HANDLERS: dict[str, Handler] = {
    f"{domain}::{name}": handler for domain in DOMAINS for name, handler in _KINDS.items()
}
