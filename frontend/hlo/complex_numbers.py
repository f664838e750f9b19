"""Complex numbers, as two real tensors: each opcode that takes or gives them, by its formula on the parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from .opcodes import OPS
from .scope import Handler, Step
from .shapes import PARTS, Shape
from .values import Complex

Number = tuple[GraphTensor, GraphTensor]
"""Real and imaginary part."""


def is_complex(step: Step) -> bool:
    """Whether an operand or the result is an array of complex numbers."""
    shape = step.instruction.shape
    return any(isinstance(x, Complex) for x in step.operands) or bool(shape and shape.type in PARTS)


def complex_value(step: Step, handlers: Mapping[str, Handler]) -> Any:
    """The value of an instruction with complex operands or a complex result. UnsupportedError."""
    opcode = step.type
    if opcode in _WHOLE or opcode.endswith(("-start", "-update", "-done")):
        return handlers[opcode](step)
    if opcode in _PARTWISE:
        return _partwise(step, handlers[opcode])
    if opcode in _COMBINING:
        return _combined(step, handlers[opcode])
    if opcode in _BILINEAR:
        return _bilinear(step, handlers[opcode])
    if opcode in _OTHERS:
        return _OTHERS[opcode](step)
    formula = _FORMULAS.get(opcode)
    if formula is None:
        raise step.unsupported("an operation on complex numbers")
    numbers = [_number(step, i) for i in range(len(step.operands))]
    if len(numbers) != formula[0]:
        step.count(formula[0])
    return Complex(*formula[1](step, *numbers))


def _number(step: Step, index: int) -> Number:
    x = step.operands[index]
    return (
        (x.real, x.imag)
        if isinstance(x, Complex)
        else (step.tensor(index), _zeros(step, step.tensor(index)))
    )


def _zeros(step: Step, like: GraphTensor) -> GraphTensor:
    zero = step.constant(0, like.details.dtype)
    return step.broadcast(zero, like.details.plain_dims)


def _part(step: Step, choice: str | list[str]) -> Step:
    """The instruction on parts of its operands: "real", "imag", or one for each operand."""
    choices = [choice] * len(step.operands) if isinstance(choice, str) else choice
    operands = [
        getattr(x, part) if isinstance(x, Complex) else x
        for x, part in zip(step.operands, choices, strict=True)
    ]
    return step.instead(step.type, _part_shape(step.instruction.shape), operands)


def _partwise(step: Step, handler: Handler) -> Any:
    return Complex(*(handler(_part(step, part)) for part in ("real", "imag")))


def _combined(step: Step, handler: Handler) -> Complex:
    """What combines elements by a computation that treats both parts alike."""
    body = step.computation("to_apply")
    if not all(i.opcode in _LINEAR for i in body.instructions):
        raise step.unsupported("complex numbers in a body other than sums")
    alike = replace(
        body,
        name=f"{body.name}.part",
        instructions=tuple(replace(i, shape=_part_shape(i.shape)) for i in body.instructions),
        signature=None,
    )
    values = []
    for word in ("real", "imag"):
        part = _part(step, word)
        attributes: dict[str, Any] = {**part.instruction.attributes, "to_apply": alike}
        part.instruction = replace(part.instruction, attributes=attributes)
        values.append(handler(part))
    if not all(isinstance(x, GraphTensor) for x in values):
        raise step.unsupported("several arrays of complex numbers at once")
    return Complex(*values)


def _part_shape(shape: Shape | None) -> Shape | None:
    if shape is None or shape.type not in PARTS:
        return shape
    return replace(shape, type=PARTS[shape.type])


def _bilinear(step: Step, handler: Handler) -> Any:
    """A product of two arrays, of which either may be real."""
    step.count(2)
    sides = [("real", "imag") if isinstance(x, Complex) else ("real",) for x in step.operands]
    found = {(a, b): handler(_part(step, [a, b])) for a in sides[0] for b in sides[1]}
    real, imag = found["real", "real"], [found[k] for k in found if k[0] != k[1]]
    if ("imag", "imag") in found:
        real = step.make("sub", real, found["imag", "imag"])
    whole = imag[0] if len(imag) == 1 else step.make("add", *imag)
    return Complex(real, whole)


def _call(step: Step, opcode: str, *operands: GraphTensor) -> GraphTensor:
    """The op that an opcode is for real numbers."""
    return step.make(OPS[opcode], *operands)


def _times(step: Step, x: Number, y: Number) -> Number:
    (a, b), (c, d) = x, y
    real = step.make("sub", step.make("mul", a, c), step.make("mul", b, d))
    return real, step.make("add", step.make("mul", a, d), step.make("mul", b, c))


def _over(step: Step, x: Number, y: Number) -> Number:
    """Divided by a number that is scaled first, so that its square does not overflow."""
    (a, b), (c, d) = x, y
    size = step.make("max", step.make("abs", c), step.make("abs", d))
    c_part, d_part = step.make("div", c, size), step.make("div", d, size)
    square = step.make("add", step.make("mul", c, c_part), step.make("mul", d, d_part))
    real = step.make("add", step.make("mul", a, c_part), step.make("mul", b, d_part))
    imag = step.make("sub", step.make("mul", b, c_part), step.make("mul", a, d_part))
    return step.make("div", real, square), step.make("div", imag, square)


def _size(step: Step, x: Number) -> GraphTensor:
    """|x|, without overflow."""
    a, b = (step.make("abs", part) for part in x)
    high, low = step.make("max", a, b), step.make("min", a, b)
    ratio = step.make("div", low, _unless_zero(step, high))
    one = step.constant(1, a.details.dtype)
    root = step.make("sqrt", step.make("add", step.make("mul", ratio, ratio), one))
    is_infinite = step.make("eq", high, step.constant(math.inf, a.details.dtype))
    return step.make("select", is_infinite, high, step.make("mul", high, root))


def _unless_zero(step: Step, x: GraphTensor) -> GraphTensor:
    is_zero = step.make("eq", x, step.constant(0, x.details.dtype))
    return step.make("select", is_zero, step.constant(1, x.details.dtype), x)


def _exp(step: Step, x: Number) -> Number:
    size = _call(step, "exponential", x[0])
    cosine, sine = _call(step, "cosine", x[1]), _call(step, "sine", x[1])
    return step.make("mul", size, cosine), step.make("mul", size, sine)


def _log(step: Step, x: Number) -> Number:
    return _call(step, "log", _size(step, x)), _call(step, "atan2", x[1], x[0])


def _sqrt(step: Step, x: Number) -> Number:
    """The root with a real part of 0 or more."""
    a, b = x
    dtype = a.details.dtype
    half, zero = step.constant(0.5, dtype), step.constant(0, dtype)
    total = step.make("add", _size(step, x), step.make("abs", a))
    root = step.make("sqrt", step.make("mul", total, half))
    other = step.make("div", step.make("mul", step.make("abs", b), half), _unless_zero(step, root))
    is_right, is_below = step.make("ge", a, zero), step.make("lt", b, zero)
    real, imag = (step.make("select", is_right, *pair) for pair in ((root, other), (other, root)))
    return real, step.make("select", is_below, step.make("neg", imag), imag)


def _power(step: Step, x: Number, y: Number) -> Number:
    """exp(y log x), and 0 for x = 0 but for y = 0."""
    value = _exp(step, _times(step, y, _log(step, x)))
    dtype = x[0].details.dtype
    zero, one = step.constant(0, dtype), step.constant(1, dtype)
    is_zero, is_unit = (
        step.make("and", *(step.make("eq", part, zero) for part in number)) for number in (x, y)
    )
    real = step.make("select", is_zero, zero, value[0])
    imag = step.make("select", step.make("or", is_zero, is_unit), zero, value[1])
    return step.make("select", is_unit, one, real), imag


def _plus(step: Step, x: Number, number: float) -> Number:
    return step.make("add", x[0], step.constant(number, x[0].details.dtype)), x[1]


def _one(step: Step, x: Number) -> Number:
    one = step.constant(1, x[0].details.dtype)
    return step.broadcast(one, x[0].details.plain_dims), _zeros(step, x[0])


def _sine(step: Step, x: Number) -> Number:
    a, b = x
    real = step.make("mul", _call(step, "sine", a), _call(step, "cosh", b))
    return real, step.make("mul", _call(step, "cosine", a), _call(step, "sinh", b))


def _cosine(step: Step, x: Number) -> Number:
    a, b = x
    real = step.make("mul", _call(step, "cosine", a), _call(step, "cosh", b))
    imag = step.make("mul", _call(step, "sine", a), _call(step, "sinh", b))
    return real, step.make("neg", imag)


def _tanh(step: Step, x: Number) -> Number:
    """(t + i u) / (1 + i t u) for t = tanh a, u = tan b."""
    t, u = _call(step, "tanh", x[0]), _call(step, "tan", x[1])
    one = step.broadcast(step.constant(1, t.details.dtype), t.details.plain_dims)
    return _over(step, (t, u), (one, step.make("mul", t, u)))


def _tan(step: Step, x: Number) -> Number:
    """-i tanh(i x)."""
    real, imag = _tanh(step, (step.make("neg", x[1]), x[0]))
    return imag, step.make("neg", real)


def _logistic(step: Step, x: Number) -> Number:
    negative = (step.make("neg", x[0]), step.make("neg", x[1]))
    return _over(step, _one(step, x), _plus(step, _exp(step, negative), 1))


def _sign(step: Step, x: Number) -> Number:
    size = _unless_zero(step, _size(step, x))
    return step.make("div", x[0], size), step.make("div", x[1], size)


_FORMULAS: dict[str, tuple[int, Callable[..., Number]]] = {
    "multiply": (2, _times),
    "divide": (2, _over),
    "power": (2, _power),
    "exponential": (1, _exp),
    "exponential-minus-one": (1, lambda step, x: _plus(step, _exp(step, x), -1)),
    "log": (1, _log),
    "log-plus-one": (1, lambda step, x: _log(step, _plus(step, x, 1))),
    "sqrt": (1, _sqrt),
    "rsqrt": (1, lambda step, x: _over(step, _one(step, x), _sqrt(step, x))),
    "sine": (1, _sine),
    "cosine": (1, _cosine),
    "tan": (1, _tan),
    "tanh": (1, _tanh),
    "logistic": (1, _logistic),
    "sign": (1, _sign),
}
"""Opcodes that give complex numbers for so many of them."""

_PARTWISE = (
    "add", "bitcast", "broadcast", "concatenate", "dynamic-slice", "dynamic-update-slice", "gather", "negate", "pad",
    "reshape", "reverse", "select", "slice", "subtract", "transpose",
)  # fmt: skip
_COMBINING = ("reduce", "reduce-window", "scatter")
_LINEAR = ("add", "negate", "parameter", "subtract")
_BILINEAR = ("convolution", "dot")
_WHOLE = (
    "add-dependency", "all-gather", "all-reduce", "all-to-all", "call", "conditional", "copy", "domain", "fft",
    "fusion", "get-tuple-element", "opt-barrier", "reduce-scatter", "tuple", "while",
)  # fmt: skip
"""Opcodes whose importers take any value."""


def _complex(step: Step) -> Complex:
    real, imag = step.tensors(2)
    step.alike([real, imag])
    return Complex(real, imag)


def _real(step: Step) -> GraphTensor:
    step.count(1)
    return _number(step, 0)[0]


def _imag(step: Step) -> GraphTensor:
    step.count(1)
    return _number(step, 0)[1]


def _abs(step: Step) -> GraphTensor:
    step.count(1)
    return _size(step, _number(step, 0))


def _compare(step: Step) -> GraphTensor:
    """Equal in both parts, or different in one."""
    step.count(2)
    (a, b), (c, d) = (_number(step, i) for i in range(2))
    words = {"EQ": ("eq", "and"), "NE": ("ne", "or")}.get(step.word("direction"))
    if words is None:
        raise step.rule("direction of complex numbers must be EQ or NE", step.word("direction"))
    return step.make(words[1], step.make(words[0], a, c), step.make(words[0], b, d))


def _convert(step: Step) -> Any:
    """Between complex types, from real numbers, or to them, which drops the imaginary part."""
    step.count(1)
    real, imag = _number(step, 0)
    type_ = step.shape.type
    if type_ not in PARTS:
        return step.converted(real, step.dtype)
    part = replace(step.shape, type=PARTS[type_])
    inner = step.instead("convert", part)
    return Complex(step.converted(real, inner.dtype), step.converted(imag, inner.dtype))


_OTHERS: dict[str, Handler] = {
    "complex": _complex,
    "real": _real,
    "imag": _imag,
    "abs": _abs,
    "compare": _compare,
    "convert": _convert,
}

HANDLERS: dict[str, Handler] = {"complex": _complex, "imag": _imag}
"""What takes real numbers too, and has no other meaning for them."""
