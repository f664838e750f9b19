"""Operators on complex numbers, which are pairs of real tensors here: by a formula, by parts, or as real matmuls."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import OpBuilder
from ..torch_calls.complex_numbers import (
    FORMULAS,
    MATMULS,
    PARTWISE,
    complex_call,
    joined,
    make_complex,
    make_polar,
    multiplied,
    part_of,
    parts_of_last,
)
from .fourier import HANDLERS as TRANSFORMS
from .program import Operator
from .scope import Handler, Node, Scope

_WHOLE = frozenset(("ListConstruct", "ListUnpack", "TupleConstruct", "TupleUnpack", "Expression"))
"""Operators that take any value."""


def complex_results(op: Operator, handler: Handler, scope: Scope) -> Any:
    """Read an operator with complex operands. Raise UnsupportedError if it does not support them."""
    name = op.type.replace("::", ".").rpartition(".")[2]
    if op.type in MAKING or op.type in TRANSFORMS or name in _WHOLE:
        return handler.run(Node(op, handler, scope))
    if name in FORMULAS:
        return _formula(op, scope, name)
    if name in PARTWISE:
        return joined(*(_of_part(op, handler, scope, *[word] * 9) for word in ("real", "imag")))
    build = OpBuilder(scope.graph, op.type, op.name)
    if name in MATMULS:
        values = [scope.values[x] for x in op.inputs]
        return multiplied(build, values, partial(_of_part, op, handler, scope))
    raise build.unsupported("an operand of complex numbers")


def _of_part(op: Operator, handler: Handler, scope: Scope, *words: str) -> Any:
    """The operator on the real or imaginary parts of its operands."""
    shadow = Scope(scope.graph, scope.weights)
    shadow.values = {
        x: part_of(scope.values[x], word) for x, word in zip(op.inputs, words, strict=False)
    }
    node = Node(replace(op, name=f"{op.name}.{words[0]}"), handler, shadow)
    found = handler.run(node)
    node.check_all_read()
    return found


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


def _of_complex(node: Node) -> Any:
    """A function that only complex numbers have."""
    raise node.rule("the input must be complex", "a real tensor")


def _real(node: Node) -> GraphTensor:
    return node.tensor_of()


_ONLY_COMPLEX = ("imag", "view_as_real", "angle")
_OF_REAL = ("real", "conj", "resolve_conj", "resolve_neg")

MAKING: dict[str, Handler] = {
    **dict.fromkeys(("torch.complex", "aten::complex"), Handler(make_complex, ("real", "imag"))),
    **dict.fromkeys(("torch.polar", "aten::polar"), Handler(make_polar, ("abs", "angle"))),
    **dict.fromkeys(("torch.view_as_complex", "aten::view_as_complex"), Handler(parts_of_last)),
}
"""Handlers that make complex numbers of real ones."""

HANDLERS: dict[str, Handler] = {
    **MAKING,
    **{f"{p}{n}": Handler(_of_complex) for n in _ONLY_COMPLEX for p in ("torch.", "Tensor.", "aten::")},
    **{f"{p}{n}": Handler(_real) for n in (*_OF_REAL, "_conj") for p in ("torch.", "Tensor.", "aten::")},
}  # fmt: skip
