"""Elementwise ops, by the rows that define them: whatever row is registered is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....base.dtypes import BOOL
from ....graph_ir.ir.graph import GraphTensor
from ....graph_ir.ir.registry import lookup, names
from ....graph_ir.ops.elementwise import Elementwise, Row
from ..scope import Scope

_CHOICES: dict[tuple[str, str], tuple[Any, ...]] = {
    ("div", "rounding"): ("floor", "trunc"),
    ("mod", "sign"): ("floor", "trunc"),
    ("gelu", "approximate"): ("none", "tanh"),
    ("clamp", "min"): (None, -1, -0.5, 0),
    ("clamp", "max"): (None, 1, 6, 2.5),
}
_NUMBERS = (0.01, 0.1, 0.25, 1.0, 1.7, 1 / 6)


def elementwise(scope: Scope, row: Row) -> None:
    """One op of a row on operands that broadcast."""
    kinds = row.accepts
    x = scope.any(kinds)
    operands = _operands(scope, row, x)
    scope.make(row.name, operands, **_attributes(scope, row))


def _operands(scope: Scope, row: Row, x: GraphTensor) -> list[GraphTensor]:
    dtype, dims = x.details.dtype, x.details.plain_dims
    conditions = [scope.broadcasting(BOOL, dims) for _ in range(row.conditions)]
    others = [scope.broadcasting(dtype, dims) for _ in row.inputs[row.conditions + 1 :]]
    numbers = [x, *others]
    if row.name not in ("shl", "shr", "prelu"):
        scope.random.shuffle(numbers)
    return [*conditions, *numbers]


def _attributes(scope: Scope, row: Row) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, declared in row.attrs.items():
        if declared.is_required or scope.chance(0.5):
            given[name] = scope.random.choice(_CHOICES.get((row.name, name), _NUMBERS))
    return given


def _rows() -> dict[str, Row]:
    classes = {name: lookup(name) for name in names()}
    made = {n: c.row for n, c in classes.items() if issubclass(c, Elementwise)}
    return {n: row for n, row in made.items() if n != "div_constant"}


RECIPES: dict[str, Callable[[Scope], None]] = {
    name: partial(elementwise, row=row) for name, row in _rows().items()
}
