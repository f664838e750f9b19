"""Reads and writes elementwise nodes that a row of the table cannot express."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from ...base.dtypes import BOOL, F64
from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.activation import clamp_limits
from ..correspondence.compositions.activation import clip
from ..correspondence.reading import Pair
from ..op_builder import Value
from .export import ELEMENT_TYPES, Exporter
from .scope import NodeContext

_F32_MAX = float(np.finfo(np.float32).max)
"""The default bounds of Clip before opset 11."""


def _read_div(node: NodeContext, _: str) -> Value:
    a, b = node.tensor(0), node.tensor(1)
    return node.make("div", a, b, **({} if a.details.dtype.is_float else {"rounding": "trunc"}))


def _write_div(e: Exporter, op: Op, _: str) -> None:
    """ONNX truncates quotients of integers: those of operands with different signs are one too large, unless exact."""
    a, b = e.values(op)
    dtype = op.inputs[0].details.dtype
    if dtype.kind != "int" or _attr(op, "rounding") != "floor":
        e.node(op, "Div", [a, b])
        return
    wrong = _rounds_up(e, op, e.part(op, "Mod", [a, b], fmod=1), b)
    one = e.part(op, "Cast", [wrong], dtype, to=ELEMENT_TYPES[dtype])
    e.node(op, "Sub", [e.part(op, "Div", [a, b]), one])


def _read_mod(node: NodeContext, _: str) -> Value:
    a, b = node.tensor(0), node.tensor(1)
    fmod = node.attr_int("fmod")
    if a.details.dtype.is_float and not fmod and node.opset < 28:
        raise node.rule("fmod must be 1 for float inputs before opset 28", "0")
    return node.make("mod", a, b, sign="trunc" if fmod else "floor")


def _write_mod(e: Exporter, op: Op, _: str) -> None:
    a, b = e.values(op)
    if _attr(op, "sign") == "trunc":
        e.node(op, "Mod", [a, b], fmod=1)
    elif not e.dtype(a).is_float:
        e.node(op, "Mod", [a, b])
    else:  # the truncated remainder, one b further where it has the other sign
        rest = e.part(op, "Mod", [a, b], fmod=1)
        wrong = _rounds_up(e, op, rest, b)
        e.node(op, "Where", [wrong, e.part(op, "Add", [rest, b]), rest])


def _rounds_up(e: Exporter, op: Op, rest: str, b: str) -> str:
    """Return whether the truncated quotient by b that leaves this remainder is above the floored one."""
    differ = e.part(op, "Xor", [_compared(e, op, "Less", rest), _compared(e, op, "Less", b)])
    inexact = e.part(op, "Not", [_compared(e, op, "Equal", rest)])
    return e.part(op, "And", [differ, inexact])


def _read_pow(node: NodeContext, _: str) -> Value:
    base, exponent = node.tensor(0), node.tensor(1)
    dtype, other = base.details.dtype, exponent.details.dtype
    if not dtype.is_float and other.is_float:  # the exponent's fraction counts, the result does not
        power = node.make("pow", node.converted(base, F64), node.converted(exponent, F64))
        return node.converted(power, dtype)
    return node.make("pow", base, node.converted(exponent, dtype))


def _read_is_inf(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    negative, positive = node.attr_int("detect_negative"), node.attr_int("detect_positive")
    if negative and positive:
        return node.make("isinf", x)
    if not negative and not positive:
        return node.make("broadcast", node.constant(False, BOOL), shape=x.details.plain_dims)
    infinity = node.constant(-math.inf if negative else math.inf, x.details.dtype)
    return node.make("eq", x, infinity)


def _read_clip(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    if node.opset < 11:
        low, high = node.attr_float("min", -_F32_MAX), node.attr_float("max", _F32_MAX)
        low_or_none = None if low <= -_F32_MAX else low
        return node.make("clamp", x, min=low_or_none, max=None if high >= _F32_MAX else high)
    return clip(node, x, *(node.value(i) if node.has(i) else None for i in (1, 2)))


def _write_clip(e: Exporter, op: Op, _: str) -> None:
    (x,) = e.values(op)
    dtype = e.dtype(x)
    limits = clamp_limits(dtype, _attr(op, "min"), _attr(op, "max"))
    bounds = [
        None if value is None else e.scalar(op, name, value, dtype)
        for name, value in zip(("min", "max"), limits, strict=True)
    ]
    e.emit(op, "Clip", [("input", x), *zip(("min", "max"), bounds, strict=True)], {})


def _read_bit_cast(node: NodeContext, _: str) -> Value:
    dtype = node.attr_dtype("to")
    # A bool is a byte that holds 0 or 1.
    is_flag = node.details(0).dtype == BOOL and dtype.size == 1
    return node.make("cast" if is_flag else "bitcast", node.tensor(0), dtype=dtype.name)


def _write_prelu(e: Exporter, op: Op, _: str) -> None:
    """ONNX's slope must not make the result larger than x."""
    x, slope = e.values(op)
    if op.inputs[0].details.plain_dims == op.outputs[0].details.plain_dims:
        e.node(op, "PRelu", [x, slope])
    else:
        negative = _compared(e, op, "Less", x)
        e.node(op, "Where", [negative, e.part(op, "Mul", [slope, x]), x])


def _write_rsqrt(e: Exporter, op: Op, _: str) -> None:
    e.node(op, "Reciprocal", [e.part(op, "Sqrt", e.values(op))])


def _write_square(e: Exporter, op: Op, _: str) -> None:
    (x,) = e.values(op)
    e.node(op, "Mul", [x, x])


def _write_trunc(e: Exporter, op: Op, _: str) -> None:
    (x,) = e.values(op)
    negative = _compared(e, op, "Less", x)
    e.node(op, "Where", [negative, e.part(op, "Ceil", [x]), e.part(op, "Floor", [x])])


def _write_expm1(e: Exporter, op: Op, _: str) -> None:
    (x,) = e.values(op)
    e.node(op, "Sub", [e.part(op, "Exp", [x]), e.scalar(op, "one", 1, e.dtype(x))])


def _write_log1p(e: Exporter, op: Op, _: str) -> None:
    (x,) = e.values(op)
    e.node(op, "Log", [e.part(op, "Add", [x, e.scalar(op, "one", 1, e.dtype(x))])])


def _write_choice(e: Exporter, op: Op, op_type: str) -> None:
    condition, x, y = e.values(op)
    if op.outputs[0].details.dtype != BOOL:
        e.node(op, op_type, [condition, x, y])
    else:  # ONNX Runtime has no Where of bools
        other = e.part(op, "And", [e.part(op, "Not", [condition]), y])
        e.node(op, "Or", [e.part(op, "And", [condition, x]), other])


def _write_not_equal(e: Exporter, op: Op, _: str) -> None:
    e.node(op, "Not", [e.part(op, "Equal", e.values(op), BOOL)])


def _compared(e: Exporter, op: Op, op_type: str, x: str) -> str:
    """A comparison of x with 0."""
    return e.part(op, op_type, [x, e.scalar(op, "zero", 0, e.dtype(x))], BOOL)


def _attr(op: Op, name: str) -> Any:
    """An attribute, or the default of the op's row."""
    return cast(Any, op).attr(name)


PAIRS = {
    "div": Pair(_read_div, _write_div), "mod": Pair(_read_mod, _write_mod), "pow": Pair(_read_pow),
    "isinf": Pair(_read_is_inf, lambda e, op, op_type: e.node(op, op_type, e.values(op))),
    "clip": Pair(_read_clip, _write_clip), "bitcast": Pair(_read_bit_cast),
    "copy": Pair(lambda node, _: node.value(0)), "prelu": Pair(None, _write_prelu),
    "rsqrt": Pair(None, _write_rsqrt), "square": Pair(None, _write_square), "trunc": Pair(None, _write_trunc),
    "expm1": Pair(None, _write_expm1), "log1p": Pair(None, _write_log1p), "ne": Pair(None, _write_not_equal),
    "choice": Pair(None, _write_choice),
}  # fmt: skip
