"""Dynamic sizes of PyTorch: its symbolic integers as expressions of this project's."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from ...base.dims import MOST, Limit, Size, Symbol, maximum, minimum, size
from ...base.size_limits import limited
from ...base.symbols import Limits
from ...graph_ir.rewriting.size_values import quotient, remainder

_RULES: dict[str, Callable[..., Size]] = {
    "Add": lambda *terms: reduce(operator.add, terms),
    "Mul": lambda *factors: reduce(operator.mul, factors),
    "Pow": lambda base, power: reduce(operator.mul, [base] * power, 1),
    **dict.fromkeys(("FloorDiv", "CleanDiv"), quotient),
    **dict.fromkeys(("Mod", "PythonMod"), remainder),
    "Max": lambda *sizes: reduce(maximum, sizes),
    "Min": lambda *sizes: reduce(minimum, sizes),
}  # fmt: skip
"""Functions of size expressions, by the names of their classes in sympy and PyTorch."""


class Sizes:
    """The sizes of the symbols of one program; unnamed symbols keep PyTorch's names.

    `limits`: the limits that ops need, by name of a size; `most`: the maximum of other sizes. `ranges`: ranges that
    PyTorch promises, beyond those it found for its examples, by symbol.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        most: int = MOST,
        ranges: Mapping[Any, Any] | None = None,
    ) -> None:
        self._known: dict[str, Size] = {}
        self._most = most
        self._ranges = dict(ranges or {})
        self.limits = dict(limits or {})

    def bind(self, dim: Any, name: str, given: Size | None = None) -> None:
        """Name a lone symbol, or bind it to a given size; a symbol that is bound already is unchanged."""
        key = _name(dim)
        if key is None or key in self._known:
            return
        symbol = Symbol(name, *self._range(dim.node.expr, dim.node.shape_env))
        value = size(symbol) if given is None else given
        self._known[key] = limited(value, self.limits)

    def of(self, dim: Any) -> Size | None:
        """A size of a tensor's; None where it is not an expression of sizes of inputs."""
        return dim if isinstance(dim, int) else self._expression(dim.node.expr, dim.node.shape_env)

    def _expression(self, found: Any, environment: Any) -> Size | None:
        if found.is_Symbol:
            return self._value(found, environment)
        if found.is_Integer:
            return int(found)
        rule = _RULES.get(found.func.__name__)
        parts = [self._expression(part, environment) for part in found.args]
        known = [part for part in parts if part is not None]
        return rule(*known) if rule and len(known) == len(parts) else None

    def count(self, dim: Any, counted: Callable[[str, Limit], Size]) -> Size | None:
        """Bind a lone symbol that the data decide to what `counted` makes of its name and range. None where it may be
        negative, and is not a size."""
        key = _name(dim)
        if key is None:
            return None
        if key not in self._known:
            found = self._found_range(dim.node.expr, dim.node.shape_env)
            if found is None or not found.lower >= 0:
                return None
            most = int(found.upper) if found.upper.is_Integer else MOST
            self._known[key] = counted(key, Limit(int(found.lower), min(most, MOST)))
        return self._known[key]

    def cut(self, dim: Any, value: Size) -> Size:
        """Bind a lone symbol that is bound already to another size."""
        self._known[str(dim.node.expr)] = value
        return value

    def _value(self, symbol: Any, environment: Any) -> Size | None:
        """The size of a symbol; None for one that the data decide and that no op has counted yet."""
        key = str(symbol)
        if not key.startswith("s"):
            return self._known.get(key)
        if key not in self._known:
            named = Symbol(key, *self._range(symbol, environment))
            self._known[key] = limited(size(named), self.limits)
        return self._known[key]

    def _range(self, symbol: Any, environment: Any) -> tuple[int, int]:
        """The least and the greatest value of a symbol, as PyTorch found them, but that programs from 2 on take 1 too:
        PyTorch notes with it only that the number of the trace was neither 0 nor 1."""
        found = self._found_range(symbol, environment)
        if found is None:
            return 1, self._most
        least = int(found.lower) if found.lower.is_Integer and found.lower != 2 else 1
        most = int(found.upper) if found.upper.is_Integer else MOST
        return least, max(least, min(most, self._most))

    def _found_range(self, symbol: Any, environment: Any) -> Any:
        return self._ranges.get(symbol) or environment.var_to_range.get(symbol)


def _name(dim: Any) -> str | None:
    """The name of a symbol that stands alone."""
    if isinstance(dim, int) or not dim.node.expr.is_symbol:
        return None
    return str(dim.node.expr)
