"""Elementwise ops as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from ...base.dtypes import BOOL, DType
from ...graph_ir.ir.graph import Op
from .elementwise import SAME_BINARY, SAME_UNARY
from .export import ELEMENT_TYPES, Exporter

Emit = Callable[[Exporter, Op], None]


def _same(op_type: str, *names: str) -> Emit:
    """One node over the op's inputs, with its float attributes of the same names."""

    def emit(e: Exporter, op: Op) -> None:
        e.node(op, op_type, e.values(op), **{name: float(_attr(op, name)) for name in names})

    return emit


def _attr(op: Op, name: str) -> Any:
    """An attribute, or the default of the op's row."""
    return cast(Any, op).attr(name)


def _logical(word: str) -> Emit:
    """And, Or, Xor and Not of bools; of integers they have another name."""

    def emit(e: Exporter, op: Op) -> None:
        prefix = "" if op.inputs[0].details.dtype == BOOL else "Bitwise"
        e.node(op, f"{prefix}{word}", e.values(op))

    return emit


def _shift(direction: str) -> Emit:
    return lambda e, op: e.node(op, "BitShift", e.values(op), direction=direction)


def _rsqrt(e: Exporter, op: Op) -> None:
    e.node(op, "Reciprocal", [e.part(op, "Sqrt", e.values(op))])


def _square(e: Exporter, op: Op) -> None:
    (x,) = e.values(op)
    e.node(op, "Mul", [x, x])


def _trunc(e: Exporter, op: Op) -> None:
    (x,) = e.values(op)
    negative = _compared(e, op, "Less", x)
    e.node(op, "Where", [negative, e.part(op, "Ceil", [x]), e.part(op, "Floor", [x])])


def _compared(e: Exporter, op: Op, op_type: str, x: str) -> str:
    """A comparison of x with 0."""
    return e.part(op, op_type, [x, e.scalar(op, "zero", 0, e.dtype(x))], BOOL)


def _expm1(e: Exporter, op: Op) -> None:
    (x,) = e.values(op)
    e.node(op, "Sub", [e.part(op, "Exp", [x]), e.scalar(op, "one", 1, e.dtype(x))])


def _log1p(e: Exporter, op: Op) -> None:
    (x,) = e.values(op)
    e.node(op, "Log", [e.part(op, "Add", [x, e.scalar(op, "one", 1, e.dtype(x))])])


def _not_equal(e: Exporter, op: Op) -> None:
    e.node(op, "Not", [e.part(op, "Equal", e.values(op), BOOL)])


def _div(e: Exporter, op: Op) -> None:
    """ONNX truncates quotients of integers; what the floored remainder leaves divides exactly."""
    a, b = e.values(op)
    if op.inputs[0].details.dtype.kind == "int" and _attr(op, "rounding") == "floor":
        a = e.part(op, "Sub", [a, e.part(op, "Mod", [a, b])])
    e.node(op, "Div", [a, b])


def _mod(e: Exporter, op: Op) -> None:
    a, b = e.values(op)
    if _attr(op, "sign") == "trunc":
        e.node(op, "Mod", [a, b], fmod=1)
    elif not e.dtype(a).is_float:
        e.node(op, "Mod", [a, b])
    else:  # the truncated remainder, one b further where it has the other sign
        rest = e.part(op, "Mod", [a, b], fmod=1)
        signs = [_compared(e, op, "Less", rest), _compared(e, op, "Less", b)]
        differ = e.part(op, "Xor", signs)
        inexact = e.part(op, "Not", [_compared(e, op, "Equal", rest)])
        wrong = e.part(op, "And", [differ, inexact])
        e.node(op, "Where", [wrong, e.part(op, "Add", [rest, b]), rest])


def _cast(e: Exporter, op: Op) -> None:
    e.node(op, "Cast", e.values(op), to=ELEMENT_TYPES[op.outputs[0].details.dtype])


def _clamp(e: Exporter, op: Op) -> None:
    (x,) = e.values(op)
    dtype = e.dtype(x)
    bounds = [_bound(e, op, name, dtype) for name in ("min", "max")]
    while bounds and not bounds[-1]:
        bounds.pop()
    e.node(op, "Clip", [x, *bounds])


def _bound(e: Exporter, op: Op, name: str, dtype: DType) -> str:
    """The initializer of a bound of the op's type, "" where there is none."""
    from ...graph_ir.ops.activation import clamp_limits

    low, high = clamp_limits(dtype, _attr(op, "min"), _attr(op, "max"))
    value = low if name == "min" else high
    return "" if value is None else e.scalar(op, name, value, dtype)


def _gelu(e: Exporter, op: Op) -> None:
    e.node(op, "Gelu", e.values(op), approximate=_attr(op, "approximate"))


def _prelu(e: Exporter, op: Op) -> None:
    """ONNX's slope must not make the result larger than x."""
    x, slope = e.values(op)
    if op.inputs[0].details.plain_dims == op.outputs[0].details.plain_dims:
        e.node(op, "PRelu", [x, slope])
    else:
        negative = _compared(e, op, "Less", x)
        e.node(op, "Where", [negative, e.part(op, "Mul", [slope, x]), x])


EXPORTERS: dict[str, Emit] = {
    **{own: _same(name) for name, own in SAME_UNARY.items()},
    **{own: _same(name) for name, own in SAME_BINARY.items()},
    **{own: _logical(own.capitalize()) for own in ("and", "or", "xor", "not")},
    "leaky_relu": _same("LeakyRelu", "alpha"),
    "elu": _same("Elu", "alpha"),
    "selu": _same("Selu", "alpha", "gamma"),
    "hard_sigmoid": _same("HardSigmoid", "alpha", "beta"),
    "max": _same("Max"),
    "min": _same("Min"),
    "pow": _same("Pow"),
    "isinf": _same("IsInf"),
    "silu": _same("Swish"),
    "select": _same("Where"),
    "copy": _same("Identity"),
    "shl": _shift("LEFT"),
    "shr": _shift("RIGHT"),
    "rsqrt": _rsqrt,
    "square": _square,
    "trunc": _trunc,
    "expm1": _expm1,
    "log1p": _log1p,
    "ne": _not_equal,
    "div": _div,
    "mod": _mod,
    "cast": _cast,
    "clamp": _clamp,
    "gelu": _gelu,
    "prelu": _prelu,
}
