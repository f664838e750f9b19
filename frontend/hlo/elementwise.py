"""Elementwise opcodes that are more than one op. Graph ops broadcast, so the same handlers apply scalar bodies
to arrays."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import by_name
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.reading import Pair
from .bits import total_order
from .opcodes import DIRECTIONS, OPS
from .scope import Handler, Step

LOGICAL = {"add": "or", "maximum": "or", "multiply": "and", "minimum": "and", "subtract": "xor"}
"""The meaning of arithmetic on pred."""


def combine(step: Step, opcode: str, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """A binary opcode applied to two tensors."""
    is_logical = a.details.dtype.kind == "bool"
    return step.make(LOGICAL.get(opcode, OPS[opcode]) if is_logical else OPS[opcode], a, b)


def _two(step: Step) -> list[GraphTensor]:
    return step.alike(step.tensors(2))


def _magnitude(step: Step) -> GraphTensor:
    (x,) = step.tensors(1)
    return x if x.details.dtype.kind == "bool" else step.make(OPS[step.type], x)


def _divide(step: Step, op_name: str) -> GraphTensor:
    a, b = _two(step)
    if a.details.dtype.is_float:
        return step.make(op_name, a, b)
    quotient = step.make(op_name, a, b, rounding="trunc")
    ones = -1 if a.details.dtype.is_signed else a.details.dtype.limits[1]
    return _unless_zero(step, b, quotient, step.constant(ones, a.details.dtype))


def _remainder(step: Step, op_name: str) -> GraphTensor:
    a, b = _two(step)
    rest = step.make(op_name, a, b, sign="trunc")
    return rest if a.details.dtype.is_float else _unless_zero(step, b, rest, a)


def _unless_zero(
    step: Step, divisor: GraphTensor, value: GraphTensor, otherwise: GraphTensor
) -> GraphTensor:
    known = step.known(divisor)
    if known is not None and np.all(known):
        return value
    is_zero = step.make("eq", divisor, step.constant(0, divisor.details.dtype))
    return step.make("select", is_zero, otherwise, value)


def _compare(step: Step) -> GraphTensor:
    a, b = _two(step)
    direction = step.word("direction")
    if direction not in DIRECTIONS:
        raise step.rule(f"direction must be one of {', '.join(DIRECTIONS)}", direction or "none")
    if step.word("type") == "TOTALORDER":
        a, b = (total_order(step, x) for x in (a, b))
    return step.make(DIRECTIONS[direction], a, b)


def _clamp(step: Step, _: str) -> GraphTensor:
    low, x, high = step.tensors(3)
    for bound in (low, high):
        same = bound.details.dtype == x.details.dtype
        if bound.details.rank and bound.details.plain_dims != x.details.plain_dims:
            same = same and step.is_mapped
        if not same:
            raise step.rule(f"bounds must be scalars or {step.shown(x)}", step.shown(bound))
    return step.make("min", step.make("max", x, low), high)


def _convert(step: Step, _: str) -> GraphTensor:
    (x,) = step.tensors(1)
    return step.converted(x, step.dtype)


def _shift_right(step: Step, op_name: str) -> GraphTensor:
    """Bits moving in depend on the type in the Graph IR, on the opcode here."""
    a, b = _two(step)
    dtype = a.details.dtype
    other = by_name(f"{'s' if step.type == 'shift-right-arithmetic' else 'u'}{dtype.bits}")
    shifted = step.make(op_name, step.converted(a, other), step.converted(b, other))
    return step.converted(shifted, dtype)


def _identity(step: Step) -> GraphTensor:
    return step.tensors(1)[0]


PAIRS = {
    "divide": Pair(_divide),
    "remainder": Pair(_remainder),
    "clamp": Pair(_clamp),
    "convert": Pair(
        _convert, lambda writer, op, _: writer.cast(writer.operand(op.inputs[0]), op.dtype, op.name)
    ),
    "shift": Pair(_shift_right),
}
HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(LOGICAL, lambda step: combine(step, step.type, *_two(step))),
    **dict.fromkeys(("abs", "sign"), _magnitude),
    "compare": _compare,
    "real": _identity,
}
