"""Patterns of ops, written as nested nodes and matched from a tensor towards its producers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

from ...base.records import dataclass
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.elementwise_binary import COMMUTATIVE
from .rewrite import Rule
from .values import uniform_value

Match = dict[str, Any]
"""Captured tensors and numbers by name."""

Build = Callable[[Graph, Op, Match], GraphTensor | None]
"""Appends the replacement of the matched op; None if it does not apply after all."""

_TOLERANCE = {"f64": 1e-6, "f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}  # of smaller types, none
"""Relative tolerance of constants: exporters write 1.4142135 or 1.41421 for sqrt(2)."""


@dataclass(frozen=True)
class Capture:
    """Any tensor that `pattern` (if given) matches; the same name is the same tensor everywhere."""

    name: str
    pattern: Pattern | None = None


@dataclass(frozen=True)
class Scalar:
    """A constant whose elements all equal `value`, or, with a name, any number, captured as a float.

    The same name is the same number everywhere.
    """

    value: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class Node:
    """The output of an op with these inputs and numbers as attributes."""

    op_name: str
    inputs: tuple[Pattern, ...]
    attrs: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Either:
    """Any of several patterns."""

    options: tuple[Pattern, ...]


Pattern = Union[Capture, Scalar, Node, Either]


def node(op_name: str, *inputs: Pattern | float, **attrs: float) -> Node:
    """A `Node`; numbers stand for scalars."""
    return Node(op_name, tuple(_pattern(i) for i in inputs), tuple(attrs.items()))


def either(*options: Pattern) -> Either:
    """An `Either`."""
    return Either(options)


def multiplied(*factors: Pattern | float) -> Either:
    """Two or three factors multiplied in any order."""
    first, *rest = (_pattern(factor) for factor in factors)
    if len(rest) == 1:
        return either(node("mul", first, rest[0]))
    second, third = rest
    pairs = ((first, second, third), (first, third, second), (second, third, first))
    return either(*(node("mul", node("mul", a, b), c) for a, b, c in pairs))


def match(pattern: Pattern, tensor: GraphTensor) -> Match | None:
    """The captures of the first match, or None."""
    return next(_ways(pattern, tensor, {}), None)


def recipe(pattern: Pattern, build: Build) -> Rule:
    """The rewriting rule that replaces what `pattern` matches by what `build` makes of the captures.

    Every pattern captures an `x` of the same dtype and shape as the result.
    """

    def rule(graph: Graph, op: Op) -> GraphTensor | None:
        found = match(pattern, op.outputs[0])
        if found is None:
            return None
        x, y = found["x"].details, op.outputs[0].details
        same_type = (x.dtype, x.plain_dims) == (y.dtype, y.plain_dims)
        return build(graph, op, found) if same_type else None

    return rule


def make_instead(op_name: str, **attrs: Any) -> Build:
    """Builds op `op_name` on the capture `x`."""

    def build(graph: Graph, op: Op, found: Match) -> GraphTensor:
        return graph.make(op_name, [found["x"]], attrs, f"{op.name}.{op_name}").outputs[0]

    return build


def _pattern(given: Pattern | float) -> Pattern:
    return Scalar(float(given)) if isinstance(given, (int, float)) else given


def _ways(pattern: Pattern, tensor: GraphTensor, found: Match) -> Iterator[Match]:
    if isinstance(pattern, Capture):
        if found.get(pattern.name, tensor) is not tensor:
            return
        extended = {**found, pattern.name: tensor}
        if pattern.pattern is None:
            yield extended
        else:
            yield from _ways(pattern.pattern, tensor, extended)
    elif isinstance(pattern, Either):
        for option in pattern.options:
            yield from _ways(option, tensor, found)
    elif isinstance(pattern, Scalar):
        yield from _scalar_ways(pattern, tensor, found)
    else:
        yield from _node_ways(pattern, tensor, found)


def _scalar_ways(pattern: Scalar, tensor: GraphTensor, found: Match) -> Iterator[Match]:
    value = uniform_value(tensor)
    if value is None or not tensor.details.dtype.is_float:
        return
    number, wanted = float(value), found.get(pattern.name, pattern.value)
    if pattern.name and pattern.name not in found:
        yield {**found, pattern.name: number}
    elif abs(number - wanted) <= _TOLERANCE.get(tensor.details.dtype.name, 0) * abs(wanted):
        yield found


def _node_ways(pattern: Node, tensor: GraphTensor, found: Match) -> Iterator[Match]:
    op = tensor.producer_owner
    if op.op_name != pattern.op_name or len(op.inputs) != len(pattern.inputs):
        return
    if not all(_is_close(op.attr(key), value) for key, value in pattern.attrs):
        return
    yield from _input_ways(pattern.inputs, op.inputs, found)
    if op.op_name in COMMUTATIVE:
        yield from _input_ways(pattern.inputs, op.inputs[::-1], found)


def _is_close(value: Any, wanted: float) -> bool:
    return isinstance(value, (int, float)) and math.isclose(
        value, wanted, rel_tol=_TOLERANCE["f32"]
    )


def _input_ways(
    patterns: Sequence[Pattern], tensors: Sequence[GraphTensor], found: Match
) -> Iterator[Match]:
    if not patterns:
        yield found
        return
    for extended in _ways(patterns[0], tensors[0], found):
        yield from _input_ways(patterns[1:], tensors[1:], extended)
