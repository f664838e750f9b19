"""Complex numbers, as two real tensors: each opcode that takes or gives them, by its formula on the parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...base.dtypes import F32, F64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions import complex_numbers as formulas
from ..correspondence.compositions.complex_numbers import Complex, Number, zeros
from .scope import Handler, Step
from .shapes import PARTS, Shape
from .values import shape_of


def is_complex(step: Step) -> bool:
    """Return whether an operand or the result is an array of complex numbers."""
    shape = step.instruction.shape
    return any(isinstance(x, Complex) for x in step.operands) or bool(shape and shape.type in PARTS)


def complex_value(step: Step, handlers: Mapping[str, Handler]) -> Any:
    """The value of an instruction with complex operands or a complex result. May raise UnsupportedError."""
    opcode = step.type
    if opcode in _WHOLE or opcode.endswith(("-start", "-update", "-done")):
        return handlers[opcode](step)
    if opcode not in _OTHERS and not any(isinstance(x, Complex) for x in step.operands):
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
    numbers = _alike(step, numbers)
    if len({real.details.dtype for real, _ in numbers}) > 1:
        raise step.rule("operands must be of one type", _shown(step))
    return Complex(*formula[1](step, *numbers))


def _alike(step: Step, numbers: Sequence[Number]) -> list[Number]:
    """Numbers of one shape, as `Step.alike` makes them."""
    parts = [step.alike([number[part] for number in numbers]) for part in range(2)]
    return list(zip(*parts, strict=True))


def _number(step: Step, index: int) -> Number:
    x = step.operands[index]
    return (
        (x.real, x.imag)
        if isinstance(x, Complex)
        else (step.tensor(index), zeros(step, step.tensor(index)))
    )


def _part(step: Step, choice: str | list[str]) -> Step:
    """The instruction on parts of its operands: "real", "imag", or one for each operand."""
    choices = [choice] * len(step.operands) if isinstance(choice, str) else choice
    operands = [
        getattr(x, part) if isinstance(x, Complex) else x
        for x, part in zip(step.operands, choices, strict=True)
    ]
    return step.instead(step.type, _part_shape(step.instruction.shape), operands)


def _shown(step: Step) -> str:
    return " and ".join(shape_of(x).logical() for x in step.operands)


def _partwise(step: Step, handler: Handler) -> Any:
    """Both parts alike; other operands are conditions and indices."""
    if any(isinstance(x, GraphTensor) and x.details.dtype.is_float for x in step.operands):
        raise step.rule("operands must be of one type", _shown(step))
    return Complex(*(handler(_part(step, part)) for part in ("real", "imag")))


def _combined(step: Step, handler: Handler) -> Complex:
    """Combine elements by a computation that treats both parts alike."""
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
    """Multiply two arrays, of which either may be real."""
    step.count(2)
    sides = [("real", "imag") if isinstance(x, Complex) else ("real",) for x in step.operands]
    found = {(a, b): handler(_part(step, [a, b])) for a in sides[0] for b in sides[1]}
    if found["real", "real"].details.dtype not in (F32, F64):
        raise step.rule("its operands and its result must be of one type", _shown(step))
    real, imag = found["real", "real"], [found[k] for k in found if k[0] != k[1]]
    if ("imag", "imag") in found:
        real = step.make("sub", real, found["imag", "imag"])
    whole = imag[0] if len(imag) == 1 else step.make("add", *imag)
    return Complex(real, whole)


_FORMULAS: dict[str, tuple[int, Callable[..., Number]]] = {
    "multiply": (2, formulas.times), "divide": (2, formulas.over), "power": (2, formulas.power),
    "exponential": (1, formulas.exp),
    "exponential-minus-one": (1, lambda step, x: formulas.plus(step, formulas.exp(step, x), -1)),
    "log": (1, formulas.log),
    "log-plus-one": (1, lambda step, x: formulas.log(step, formulas.plus(step, x, 1))),
    "sqrt": (1, formulas.sqrt),
    "rsqrt": (1, lambda step, x: formulas.over(step, formulas.one(step, x), formulas.sqrt(step, x))),
    "sine": (1, formulas.sine), "cosine": (1, formulas.cosine), "tan": (1, formulas.tan),
    "tanh": (1, formulas.tanh), "logistic": (1, formulas.logistic), "sign": (1, formulas.sign),
}  # fmt: skip
"""Opcodes with complex results, with their number of complex operands."""

_PARTWISE = (
    "add", "bitcast", "broadcast", "concatenate", "dynamic-slice", "dynamic-update-slice", "gather", "negate", "pad",
    "reshape", "reverse", "select", "slice", "subtract", "transpose",
)  # fmt: skip
_COMBINING = ("reduce", "reduce-window", "scatter")
_LINEAR = ("add", "negate", "parameter", "subtract")
_BILINEAR = ("convolution", "dot")
_WHOLE = (
    "add-dependency", "all-gather", "all-reduce", "all-to-all", "call", "conditional", "copy", "custom-call",
    "domain", "fft", "fusion", "get-tuple-element", "opt-barrier", "reduce-scatter", "tuple", "while",
)  # fmt: skip
"""Opcodes whose importers take any value."""


def _complex(step: Step) -> Complex:
    real, imag = step.alike(step.tensors(2))
    if {real.details.dtype, imag.details.dtype} not in ({F32}, {F64}):
        raise step.rule("its operands must both be f32 or f64", step.shown(real, imag))
    return Complex(real, imag)


def _real(step: Step) -> GraphTensor:
    step.count(1)
    return _number(step, 0)[0]


def _imag(step: Step) -> GraphTensor:
    step.count(1)
    return _number(step, 0)[1]


def _abs(step: Step) -> GraphTensor:
    step.count(1)
    return formulas.magnitude(step, _number(step, 0))


def _compare(step: Step) -> GraphTensor:
    """Equal in both parts, or different in one."""
    step.count(2)
    (a, b), (c, d) = _alike(step, [_number(step, i) for i in range(2)])
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
"""Handlers of opcodes that take real operands too, with the same semantics."""
