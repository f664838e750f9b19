"""Complex numbers in PyTorch functions, as pairs of real tensors: by a formula, by parts, or as real matmuls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions import complex_numbers as formulas
from ..correspondence.compositions.complex_numbers import Complex, Number, zeros
from ..correspondence.compositions.fourier import Spectrum, each
from ..op_builder import OpBuilder
from .arithmetic import as_float
from .builder import Builder
from .call import Call

PARTWISE = frozenset(
    (
        *("reshape", "reshape_as", "view", "view_as", "permute", "transpose", "t", "flatten", "unflatten", "squeeze"),
        *("unsqueeze", "slice", "select", "narrow", "expand", "expand_as", "broadcast_to", "repeat", "tile", "cat"),
        *("concat", "stack", "roll", "flip", "chunk", "split", "tensor_split", "unbind", "contiguous", "clone"),
        *("detach", "movedim", "swapaxes", "index_select", "gather", "index", "sum", "mean", "cumsum", "diagonal"),
    )
)  # fmt: skip
"""Functions that do the same with both parts."""

MATMULS = frozenset(("matmul", "mm", "bmm", "mv", "dot"))
"""Functions that are linear in both operands."""


def holds_complex(value: Any) -> bool:
    """Return whether a value is complex, or a list with such a value."""
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, (Complex, complex)) for item in items)


def joined(real: Any, imag: Any) -> Any:
    """Both parts of a result, of a tuple or of a list of them."""
    if isinstance(real, (tuple, list)):
        return type(real)(joined(*pair) for pair in zip(real, imag, strict=True))
    return Complex(real, imag)


def part_of(value: Any, word: str) -> Any:
    """Return the `real` or `imag` part of a value or of the values in a list; real values are returned unchanged."""
    if isinstance(value, list):
        return [part_of(item, word) for item in value]
    return getattr(value, word) if isinstance(value, Complex) else value


def multiplied(
    build: OpBuilder, values: Sequence[Any], of_parts: Callable[[str, str], GraphTensor]
) -> Complex:
    """Multiply two arrays, of which either may be real; `of_parts` multiplies parts of them by their names."""
    sides = [("real", "imag") if isinstance(x, Complex) else ("real",) for x in values]
    found = {(a, b): of_parts(a, b) for a in sides[0] for b in sides[1]}
    real, mixed = found["real", "real"], [found[key] for key in found if key[0] != key[1]]
    if ("imag", "imag") in found:
        real = build.helper("sub", real, found["imag", "imag"])
    return Complex(real, mixed[0] if len(mixed) == 1 else build.helper("add", *mixed))


def spectrum(node: Call, name: str = "input") -> Spectrum:
    """An operand of a Fourier transform, real or complex."""
    value: Any = node.argument(name)
    if isinstance(value, Complex):
        return Spectrum(value.real, value.imag)
    return Spectrum(as_float(node, node.tensor_of(name)), None)


def scaled(node: Call, x: Spectrum, factor: float) -> Spectrum:
    """Each element times a number."""
    if factor == 1:
        return x
    return each(x, lambda part: node.helper("mul", part, node.constant(factor, part.details.dtype)))


def complex_call(build: Builder, name: str, values: list[Any]) -> Any:
    """A function of complex and real tensors and numbers."""
    if name not in FORMULAS:
        raise build.unsupported(f"{name} of complex numbers")
    count, function = FORMULAS[name]
    if len(values) != count:
        raise build.rule(f"{name} must have {count} operands", str(len(values)))
    reals = [x.real if isinstance(x, Complex) else x for x in values]
    tensors = [x for x in reals if isinstance(x, GraphTensor) and x.details.dtype.is_float]
    if not tensors:
        raise build.unsupported(f"{name} of complex numbers alone")
    found = function(build, *(_number(build, x, tensors[0]) for x in values))
    return Complex(*found) if isinstance(found, tuple) else found


def _number(build: Builder, value: Any, like: GraphTensor) -> Number:
    """The parts of a value, in the type of `like`."""
    dtype = like.details.dtype
    if isinstance(value, Complex):
        return value.real, value.imag
    if isinstance(value, complex):
        return build.constant(value.real, dtype), build.constant(value.imag, dtype)
    real = build.tensor(value, dtype)
    return real, zeros(build, real)


def _each(op_name: str) -> Callable[..., Number]:
    return lambda build, x, y: (
        build.helper(op_name, x[0], y[0]),
        build.helper(op_name, x[1], y[1]),
    )


def _inverse(build: OpBuilder, x: Number) -> Number:
    return formulas.over(build, formulas.one(build, x), x)


def _equal(build: OpBuilder, x: Number, y: Number) -> GraphTensor:
    return build.helper("and", *_each("eq")(build, x, y))


def _stacked(build: OpBuilder, x: Number) -> GraphTensor:
    """[..., 2]."""
    parts = [build.reshaped(part, (*part.details.plain_dims, 1)) for part in x]
    return build.helper("concat", *parts, axis=x[0].details.rank)


FORMULAS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, _each("add")), "sub": (2, _each("sub")), "mul": (2, formulas.times), "div": (2, formulas.over),
    "pow": (2, formulas.power), "eq": (2, _equal), "exp": (1, formulas.exp),
    "log": (1, formulas.log), "sqrt": (1, formulas.sqrt), "reciprocal": (1, _inverse), "sin": (1, formulas.sine),
    "cos": (1, formulas.cosine), "tan": (1, formulas.tan), "tanh": (1, formulas.tanh),
    "sigmoid": (1, formulas.logistic), "sgn": (1, formulas.sign), "abs": (1, formulas.magnitude),
    "rsqrt": (1, lambda build, x: _inverse(build, formulas.sqrt(build, x))),
    "neg": (1, lambda build, x: tuple(build.helper("neg", part) for part in x)),
    "square": (1, lambda build, x: formulas.times(build, x, x)),
    "angle": (1, lambda build, x: build.helper("atan2", x[1], x[0])),
    **dict.fromkeys(("conj", "_conj"), (1, lambda build, x: (x[0], build.helper("neg", x[1])))),
    **dict.fromkeys(("resolve_conj", "resolve_neg"), (1, lambda build, x: x)),
    "real": (1, lambda build, x: x[0]), "imag": (1, lambda build, x: x[1]), "view_as_real": (1, _stacked),
}  # fmt: skip
"""Functions that return a pair or a tensor, with their number of complex arguments."""


def make_complex(node: Call) -> Any:
    """torch.complex."""
    real, imag = node.tensor_of("real"), node.tensor_of("imag")
    dims = tuple(np.broadcast_shapes(real.details.plain_dims, imag.details.plain_dims))
    return Complex(node.broadcast(real, dims), node.broadcast(imag, dims))


def make_polar(node: Call) -> Any:
    """torch.polar."""
    size, angle = node.tensor_of("abs"), node.tensor_of("angle")
    cosine, sine = node.helper("cos", angle), node.helper("sin", angle)
    return Complex(node.helper("mul", size, cosine), node.helper("mul", size, sine))


def parts_of_last(node: Call) -> Any:
    """[..., 2] as complex numbers."""
    x = node.tensor_of()
    *dims, last = x.details.plain_dims or (0,)
    if last != 2:
        raise node.rule("the last axis must hold a real and an imaginary part", str(x.details))
    parts = (node.sliced(x, len(dims), i, 1) for i in range(2))
    return Complex(*(node.reshaped(part, dims) for part in parts))
