"""Operators on complex numbers, which are pairs of real tensors here: by a formula, part by part, as real products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions import complex_numbers as formulas
from ..correspondence.compositions.complex_numbers import Complex, Number, zeros
from ..op_builder import OpBuilder
from ..torch_calls.builder import Builder
from .fourier import HANDLERS as TRANSFORMS
from .program import Operator
from .scope import Handler, Node, Scope

PARTWISE = frozenset(
    (
        *("reshape", "reshape_as", "view", "view_as", "permute", "transpose", "t", "flatten", "unflatten", "squeeze"),
        *("unsqueeze", "slice", "select", "narrow", "expand", "expand_as", "broadcast_to", "repeat", "tile", "cat"),
        *("concat", "stack", "roll", "flip", "chunk", "split", "tensor_split", "unbind", "contiguous", "clone"),
        *("detach", "movedim", "swapaxes", "index_select", "gather", "index", "sum", "mean", "cumsum", "diagonal"),
    )
)  # fmt: skip
"""Functions that do the same with both parts."""

PRODUCTS = frozenset(("matmul", "mm", "bmm", "mv", "dot"))
"""Functions that are linear in both operands."""

_WHOLE = frozenset(("ListConstruct", "ListUnpack", "TupleConstruct", "TupleUnpack", "Expression"))
"""Operators that take any value."""


def holds_complex(value: Any) -> bool:
    """Whether a value is complex, or a list with such a value."""
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, (Complex, complex)) for item in items)


def complex_results(op: Operator, handler: Handler, scope: Scope) -> Any:
    """What an operator gives for complex operands. UnsupportedError where it has no meaning for them here."""
    name = op.type.replace("::", ".").rpartition(".")[2]
    if op.type in MAKING or op.type in TRANSFORMS or name in _WHOLE:
        return handler.run(Node(op, handler, scope))
    if name in FORMULAS:
        return _formula(op, scope, name)
    if name in PARTWISE:
        return _joined(*(_of_part(op, handler, scope, [word] * 9) for word in ("real", "imag")))
    if name in PRODUCTS:
        return _product(op, handler, scope)
    raise OpBuilder(scope.graph, op.type, op.name).unsupported("an operand of complex numbers")


def _joined(real: Any, imag: Any) -> Any:
    """Both parts of a result, of a tuple or of a list of them."""
    if isinstance(real, (tuple, list)):
        return type(real)(_joined(*pair) for pair in zip(real, imag, strict=True))
    return Complex(real, imag)


def _of_part(op: Operator, handler: Handler, scope: Scope, words: list[str]) -> Any:
    """The operator on the real or imaginary parts of its operands."""
    shadow = Scope(scope.graph, scope.weights)
    shadow.values = {
        x: _part(scope.values[x], word) for x, word in zip(op.inputs, words, strict=False)
    }
    node = Node(replace(op, name=f"{op.name}.{words[0]}"), handler, shadow)
    found = handler.run(node)
    node.check_all_read()
    return found


def _part(value: Any, word: str) -> Any:
    if isinstance(value, list):
        return [_part(item, word) for item in value]
    return getattr(value, word) if isinstance(value, Complex) else value


def _product(op: Operator, handler: Handler, scope: Scope) -> Complex:
    """A product of two arrays, of which either may be real."""
    sides = [
        ("real", "imag") if isinstance(scope.values[x], Complex) else ("real",) for x in op.inputs
    ]
    found = {(a, b): _of_part(op, handler, scope, [a, b]) for a in sides[0] for b in sides[1]}
    build = OpBuilder(scope.graph, op.type, op.name)
    real, mixed = found["real", "real"], [found[key] for key in found if key[0] != key[1]]
    if ("imag", "imag") in found:
        real = build.helper("sub", real, found["imag", "imag"])
    return Complex(real, mixed[0] if len(mixed) == 1 else build.helper("add", *mixed))


def _formula(op: Operator, scope: Scope, name: str) -> Any:
    """Operands by position, and the number that may stand for the second one."""
    node = Node(op, Handler(lambda node: None, ("*",)), scope)
    values: list[Any] = list(node.values)
    if len(values) < FORMULAS[name][0] and node.given("other"):
        values.append(node.argument("other"))
    found = complex_call(node, name, values)
    if node.attr_float("alpha", 1.0) != 1:
        raise node.unsupported("alpha other than 1 for complex numbers")
    node.check_all_read()
    return found


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


def _opposite(build: OpBuilder, x: Number) -> Number:
    return build.helper("neg", x[0]), build.helper("neg", x[1])


def _inverse(build: OpBuilder, x: Number) -> Number:
    return formulas.over(build, formulas.one(build, x), x)


def _equal(build: OpBuilder, x: Number, y: Number) -> GraphTensor:
    return build.helper("and", *_each("eq")(build, x, y))


def _stacked(build: OpBuilder, x: Number) -> GraphTensor:
    """[..., 2]."""
    parts = [build.reshaped(part, (*part.details.plain_dims, 1)) for part in x]
    return build.helper("concat", *parts, axis=x[0].details.rank)


FORMULAS: dict[str, tuple[int, Callable[..., Any]]] = {
    "add": (2, _each("add")),
    "sub": (2, _each("sub")),
    "mul": (2, formulas.times),
    "div": (2, formulas.over),
    "pow": (2, formulas.power),
    "neg": (1, _opposite),
    "exp": (1, formulas.exp),
    "log": (1, formulas.log),
    "sqrt": (1, formulas.sqrt),
    "rsqrt": (1, lambda build, x: _inverse(build, formulas.sqrt(build, x))),
    "square": (1, lambda build, x: formulas.times(build, x, x)),
    "reciprocal": (1, _inverse),
    "sin": (1, formulas.sine),
    "cos": (1, formulas.cosine),
    "tan": (1, formulas.tan),
    "tanh": (1, formulas.tanh),
    "sigmoid": (1, formulas.logistic),
    "sgn": (1, formulas.sign),
    "abs": (1, formulas.magnitude),
    "angle": (1, lambda build, x: build.helper("atan2", x[1], x[0])),
    "conj": (1, lambda build, x: (x[0], build.helper("neg", x[1]))),
    "_conj": (1, lambda build, x: (x[0], build.helper("neg", x[1]))),
    "resolve_conj": (1, lambda build, x: x),
    "resolve_neg": (1, lambda build, x: x),
    "real": (1, lambda build, x: x[0]),
    "imag": (1, lambda build, x: x[1]),
    "view_as_real": (1, _stacked),
    "eq": (2, _equal),
    "ne": (2, lambda build, x, y: build.helper("not", _equal(build, x, y))),
}
"""Functions of so many complex numbers that give a pair, or a tensor."""


def _make_complex(node: Node) -> Any:
    real, imag = node.tensor_of("real"), node.tensor_of("imag")
    dims = tuple(np.broadcast_shapes(real.details.plain_dims, imag.details.plain_dims))
    return Complex(node.broadcast(real, dims), node.broadcast(imag, dims))


def _make_polar(node: Node) -> Any:
    size, angle = node.tensor_of("abs"), node.tensor_of("angle")
    cosine, sine = node.helper("cos", angle), node.helper("sin", angle)
    return Complex(node.helper("mul", size, cosine), node.helper("mul", size, sine))


def _parts_of_last(node: Node) -> Any:
    """[..., 2] as complex numbers."""
    x = node.tensor_of()
    *dims, last = x.details.plain_dims or (0,)
    if last != 2:
        raise node.rule("the last axis must hold a real and an imaginary part", str(x.details))
    parts = (node.sliced(x, len(dims), i, 1) for i in range(2))
    return Complex(*(node.reshaped(part, dims) for part in parts))


def _of_complex(node: Node) -> Any:
    """A function that only complex numbers have."""
    raise node.rule("the input must be complex", "a real tensor")


def _real(node: Node) -> GraphTensor:
    return node.tensor_of()


_ONLY_COMPLEX = ("imag", "view_as_real", "angle")
_OF_REAL = ("real", "conj", "resolve_conj", "resolve_neg")

MAKING: dict[str, Handler] = {
    **dict.fromkeys(("torch.complex", "aten::complex"), Handler(_make_complex, ("real", "imag"))),
    **dict.fromkeys(("torch.polar", "aten::polar"), Handler(_make_polar, ("abs", "angle"))),
    **dict.fromkeys(("torch.view_as_complex", "aten::view_as_complex"), Handler(_parts_of_last)),
}
"""What makes complex numbers of real ones."""

HANDLERS: dict[str, Handler] = {
    **MAKING,
    **{f"{p}{n}": Handler(_of_complex) for n in _ONLY_COMPLEX for p in ("torch.", "Tensor.", "aten::")},
    **{f"{p}{n}": Handler(_real) for n in (*_OF_REAL, "_conj") for p in ("torch.", "Tensor.", "aten::")},
}  # fmt: skip
"""Operators of this family."""
