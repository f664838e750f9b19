"""Elementwise opcodes. Graph ops broadcast, so the same handlers apply scalar bodies to arrays."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import DType, by_name
from ...graph_ir.ir.graph import GraphTensor
from .opcodes import DIRECTIONS, OPS
from .scope import Handler, Step
from .syntax import Word

LOGICAL = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and", "subtract": "xor"}
"""The meaning of arithmetic on pred."""


def _plain(step: Step) -> GraphTensor:
    opcode, operands = step.instruction.opcode, step.tensors()
    if operands[-1].details.dtype.kind == "bool":
        if opcode in ("abs", "sign"):
            return operands[0]
        return step.make(LOGICAL.get(opcode, OPS[opcode]), *operands)
    return step.make(OPS[opcode], *operands)


def combine(step: Step, opcode: str, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """A binary opcode applied to two tensors."""
    is_logical = a.details.dtype.kind == "bool"
    return step.make(LOGICAL.get(opcode, OPS[opcode]) if is_logical else OPS[opcode], a, b)


def _never_zero(step: Step, x: GraphTensor) -> bool:
    value = step.known(x)
    return value is not None and bool(np.all(value))


def _divide(step: Step) -> GraphTensor:
    a, b = step.tensors()
    if a.details.dtype.is_float:
        return step.make("div", a, b)
    quotient = step.make("div", a, b, rounding="trunc")
    if _never_zero(step, b):
        return quotient
    ones = -1 if a.details.dtype.is_signed else np.iinfo(a.details.dtype.numpy).max
    is_zero = step.make("eq", b, step.constant(0, b.details.dtype))
    return step.make("select", is_zero, step.constant(ones, a.details.dtype), quotient)


def _remainder(step: Step) -> GraphTensor:
    a, b = step.tensors()
    rest = step.make("mod", a, b, sign="trunc")
    if a.details.dtype.is_float or _never_zero(step, b):
        return rest
    is_zero = step.make("eq", b, step.constant(0, b.details.dtype))
    return step.make("select", is_zero, a, rest)


def _compare(step: Step) -> GraphTensor:
    a, b = step.tensors()
    direction = step.typed("direction", Word).text
    if direction not in DIRECTIONS:
        raise step.fail(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction}")
    kind = step.attribute("type")
    if kind == Word("TOTALORDER") and a.details.dtype.is_float:
        return _total_order(step, direction, a, b)
    return step.make(DIRECTIONS[direction], a, b)


def _total_order(step: Step, direction: str, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """Total order: -0 before +0, and NaN of either sign last."""
    if direction in ("GT", "LE"):
        a, b = b, a
    less = _precedes(step, a, b)
    if direction in ("LT", "GT"):
        return less
    if direction in ("GE", "LE"):
        return step.make("not", less)
    differ = step.make("or", less, _precedes(step, b, a))
    return differ if direction == "NE" else step.make("not", differ)


def _precedes(step: Step, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    number = step.make("not", step.make("isnan", a))
    to_nan = step.make("and", step.make("isnan", b), number)
    zeros = step.make("eq", a, b)
    # Only zeros are equal to each other and have different reciprocals: -inf and inf.
    signs = step.make("lt", step.make("reciprocal", a), step.make("reciprocal", b))
    signed = step.make("and", zeros, signs)
    return step.make("or", step.make("lt", a, b), step.make("or", to_nan, signed))


def _clamp(step: Step) -> GraphTensor:
    low, x, high = step.tensors()
    return step.make("min", step.make("max", x, low), high)


def _convert(step: Step) -> GraphTensor:
    return step.cast(step.tensor(0), step.dtype)


def _is_finite(step: Step) -> GraphTensor:
    x = step.tensor(0)
    size = step.make("abs", x)
    return step.make("lt", size, step.constant(math.inf, x.details.dtype))


def _round_away(step: Step) -> GraphTensor:
    x = step.tensor(0)
    dtype = x.details.dtype
    whole = step.make("trunc", x)
    rest = step.make("abs", step.make("sub", x, whole))
    up = step.make("ge", rest, step.constant(0.5, dtype))
    return step.make(
        "add", whole, step.make("select", up, step.make("sign", x), step.constant(0, dtype))
    )


def _cube_root(step: Step) -> GraphTensor:
    x = step.tensor(0)
    third = step.constant(1 / 3, x.details.dtype)
    root = step.make("pow", step.make("abs", x), third)
    return step.make("mul", step.make("sign", x), root)


def _shift_right(step: Step) -> GraphTensor:
    """Bits moving in depend on the type in the Graph IR, on the opcode here."""
    a, b = step.tensors()
    dtype = a.details.dtype
    letter = "s" if step.instruction.opcode == "shift-right-arithmetic" else "u"
    other: DType = by_name(f"{letter}{dtype.bits}")
    return step.cast(step.make("shr", step.cast(a, other), step.cast(b, other)), dtype)


def _identity(step: Step) -> GraphTensor:
    return step.tensor(0)


ELEMENTWISE: dict[str, Handler] = {
    **dict.fromkeys(OPS, _plain),
    "divide": _divide,
    "remainder": _remainder,
    "compare": _compare,
    "clamp": _clamp,
    "convert": _convert,
    "is-finite": _is_finite,
    "round-nearest-afz": _round_away,
    "cbrt": _cube_root,
    "shift-right-logical": _shift_right,
    "shift-right-arithmetic": _shift_right,
    "real": _identity,
}
"""Opcode to handler."""
