"""Arithmetic identities. All are bit-exact (up to the payload of a NaN) except x ** 3, which rounds twice."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.elementwise_binary import COMMUTATIVE
from ..rewriting.rewrite import Rule, rewrite
from ..rewriting.values import constant_value, never_below_zero, uniform_value
from ..schedule.context import LowerContext

_INVOLUTIONS = ("neg", "not")
_ROUNDINGS = ("floor", "ceil", "trunc", "round")


def simplify_algebra(graph: Graph, ctx: LowerContext) -> bool:
    """Remove arithmetic that changes nothing, and use the cheaper of two equivalent ops.

    %a = mul(%x, 1); %b = neg(neg(%a)); %c = pow(%b, 2); %d = div(%c, 4)
    ->
    %c = square(%x); %d = mul(%c, 0.25)

    Requires: topological order.
    Ensures: topological order; none of the rules below fits any more.
    """
    return rewrite(graph, RULES)


def _drop_neutral(graph: Graph, op: Op) -> GraphTensor | None:
    """x + -0, x - 0, x * 1, x / 1, x ** 1, max(x, -inf), x and all ones, ...: x."""
    return next((x for x, number in _numbers(op) if _is_neutral(op.op_name, number, x)), None)


def _numbers(op: Op) -> Iterator[tuple[GraphTensor, Any]]:
    """Each operand of the result's type whose other operand is one number, and that number."""
    for index in (1, 0) if op.op_name in COMMUTATIVE else (1,):
        kept, value = op.inputs[1 - index], uniform_value(op.inputs[index])
        if value is not None and _same_type(kept, op):
            yield kept, value


def _is_neutral(op_name: str, value: Any, kept: GraphTensor) -> bool:
    dtype = kept.details.dtype
    if op_name in ("mul", "div", "pow"):
        return bool(value == 1)
    if op_name in ("add", "sub"):
        # +0 + -0 is +0, so the sign of the zero counts, unless the other operand is never -0.
        harmless = not dtype.is_float or np.signbit(value) == (op_name == "add")
        return bool(value == 0 and (harmless or never_below_zero(kept)))
    if op_name in ("min", "max"):
        return dtype.is_float and float(value) == (math.inf if op_name == "min" else -math.inf)
    if op_name == "and":
        return bool(np.invert(value) == 0)
    return op_name in ("or", "xor", "shl", "shr") and bool(value == 0)


def _drop_repeated(graph: Graph, op: Op) -> GraphTensor | None:
    """relu(relu(x)): relu(x); floor(round(x)): round(x)."""
    inner = op.inputs[0].producer_owner
    same = inner.op_name == op.op_name or {inner.op_name, op.op_name} <= set(_ROUNDINGS)
    return op.inputs[0] if same else None


def _drop_undone(graph: Graph, op: Op) -> GraphTensor | None:
    """neg(neg(x)), not(not(x)): x."""
    inner = op.inputs[0].producer_owner
    return inner.inputs[0] if inner.op_name == op.op_name else None


def _forget_sign(graph: Graph, op: Op) -> GraphTensor | None:
    """square(neg(x)), square(abs(x)): square(x); the same for abs, but of unsigned numbers, whose negation wraps."""
    inner = op.inputs[0].producer_owner
    if inner.op_name not in ("neg", "abs") or op.op_name == inner.op_name:
        return None
    if op.op_name == "abs" and op.inputs[0].details.dtype.kind == "uint":
        return None
    op.set_input(0, inner.inputs[0])
    return op.outputs[0]


def _drop_on_non_negative(graph: Graph, op: Op) -> GraphTensor | None:
    """relu(x), abs(x) where x is never negative: x."""
    return op.inputs[0] if never_below_zero(op.inputs[0]) else None


def _square_of_itself(graph: Graph, op: Op) -> GraphTensor | None:
    """x * x: square(x)."""
    if op.inputs[0] is not op.inputs[1]:
        return None
    return graph.make("square", op.inputs[:1], name=f"{op.name}.square").outputs[0]


def _negate(graph: Graph, op: Op) -> GraphTensor | None:
    """x * -1: neg(x)."""
    for x, number in _numbers(op):
        if x.details.dtype.is_signed and number == -1:
            return graph.make("neg", [x], name=f"{op.name}.neg").outputs[0]
    return None


def _power(graph: Graph, op: Op) -> GraphTensor | None:
    """x ** 2: square(x); x ** 3: square(x) * x; floats also ** 0.5, -0.5, -1: sqrt, rsqrt, reciprocal.

    The roots only where x is never negative: (-inf) ** 0.5 is inf and (-0) ** 0.5 is +0, but sqrt gives NaN and -0.
    """
    x, exponent = next(_numbers(op), (op.inputs[0], None))
    if exponent is None:
        return None
    if exponent in (2, 3):
        square = graph.make("square", [x], name=f"{op.name}.square").outputs
        if exponent == 2:
            return square[0]
        return graph.make("mul", [*square, x], name=f"{op.name}.cube").outputs[0]
    names = {0.5: "sqrt", -0.5: "rsqrt", -1.0: "reciprocal"}
    if not x.details.dtype.is_float or float(exponent) not in names:
        return None
    if exponent != -1 and not never_below_zero(x):
        return None
    return graph.make(names[float(exponent)], [x], name=f"{op.name}.root").outputs[0]


def _multiply_instead(graph: Graph, op: Op) -> GraphTensor | None:
    """x / c: x * (1 / c) where every element of c is a power of two whose reciprocal is a normal number."""
    divisor = constant_value(op.inputs[1])
    if divisor is None or not divisor.size or not op.inputs[1].details.dtype.is_float:
        return None
    wide = divisor.astype(np.float64)
    with np.errstate(all="ignore"):
        exact = np.all(np.abs(np.frexp(wide)[0]) == 0.5) and np.all(np.isfinite(wide))
        inverse = (1 / wide).astype(divisor.dtype)
    smallest = 2.0 ** (2 - op.inputs[1].details.dtype.range[1])
    if (
        not exact
        or not np.all(np.isfinite(inverse))
        or np.any(np.abs(inverse.astype(np.float64)) < smallest)
    ):
        return None
    factor = graph.make_constant(inverse, f"{op.inputs[1].name}.inverse")
    return graph.make("mul", [op.inputs[0], factor], name=f"{op.name}.mul").outputs[0]


def _relu(graph: Graph, op: Op) -> GraphTensor | None:
    """max(x, 0): relu(x)."""
    for x, number in _numbers(op):
        if number == 0 and not np.signbit(np.float64(number)):
            return graph.make("relu", [x], name=f"{op.name}.relu").outputs[0]
    return None


def _drop_choice(graph: Graph, op: Op) -> GraphTensor | None:
    """select(true, x, y): x; select(false, x, y): y; select(c, x, x): x."""
    condition, x, y = op.inputs
    value = uniform_value(condition)
    kept = x if x is y or value else y
    return kept if (x is y or value is not None) and _same_type(kept, op) else None


def _any_element(graph: Graph, op: Op) -> GraphTensor | None:
    """gather and gather_elements of a constant whose elements are one number: that number."""
    value, dims = uniform_value(op.inputs[0]), op.outputs[0].details.plain_dims
    if value is None:
        return None
    number = graph.make_constant(np.asarray(value), f"{op.name}.value")
    return graph.make("broadcast", [number], {"shape": dims}, f"{op.name}.broadcast").outputs[0]


def _drop_cast(graph: Graph, op: Op) -> GraphTensor | None:
    """cast(x) to its own type: x; cast(cast(x)): one cast, where the first loses nothing."""
    x = op.inputs[0]
    if _same_type(x, op):
        return x
    inner = x.producer_owner
    if inner.op_name != "cast":
        return None
    source, target = inner.inputs[0].details.dtype, op.outputs[0].details.dtype
    if not _holds(source, x.details.dtype) or not _direct(source, x.details.dtype, target):
        return None
    op.set_input(0, inner.inputs[0])
    return op.outputs[0]


def _holds(narrow: DType, wide: DType) -> bool:
    """Return whether every value of `narrow` is a value of `wide`."""
    if narrow == wide:
        return True
    if wide.is_float and wide.bits <= 8:  # there may be no -0, and no zero either
        return False
    if narrow.kind == "bool":
        return True
    if narrow.is_float:
        return wide.is_float and all(a <= b for a, b in zip(narrow.range, wide.range, strict=True))
    digits = narrow.bits - (narrow.kind == "int")
    if wide.is_float:
        return digits <= wide.range[0]
    fits = digits <= wide.bits - (wide.kind == "int")
    return wide.kind != "bool" and fits and (narrow.kind == "uint" or wide.kind == "int")


def _direct(source: DType, middle: DType, target: DType) -> bool:
    """Return whether casts from `source` and from `middle` give the same result."""
    if source.is_float or not middle.is_float:
        return True
    if target.is_float:  # integers are converted to 16-bit floats through f32
        return target.bits > 16 or _holds(source, target.accumulator)
    return target.kind == "bool" or _holds(source, target)  # floats saturate, integers wrap


def _same_type(tensor: GraphTensor, op: Op) -> bool:
    """Return whether `tensor` can replace the op's output: dtype, shape and layout agree."""
    return tensor.details == op.outputs[0].details


RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("add", "sub", "min", "and", "or", "xor", "shl", "shr"), (_drop_neutral,)),
    "mul": (_drop_neutral, _negate, _square_of_itself),
    "div": (_drop_neutral, _multiply_instead),
    "max": (_drop_neutral, _relu),
    "pow": (_drop_neutral, _power),
    **dict.fromkeys(_ROUNDINGS, (_drop_repeated,)),
    "sign": (_drop_repeated,),
    "relu": (_drop_repeated, _drop_on_non_negative),
    "abs": (_drop_repeated, _forget_sign, _drop_on_non_negative),
    "square": (_forget_sign,),
    **dict.fromkeys(_INVOLUTIONS, (_drop_undone,)),
    "select": (_drop_choice,),
    "cast": (_drop_cast,),
    "gather": (_any_element,),
    "gather_elements": (_any_element,),
}
