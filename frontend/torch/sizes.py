"""Sizes that PyTorch leaves open: its symbolic integers as expressions of this project's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base.dims import MOST, Limit, Size, Symbol, size
from ...base.size_limits import limited


class Sizes:
    """What the symbols of one program stand for; those that nobody has named keep PyTorch's names.

    `limits`: what ops need of open sizes, by name; `most` is the greatest value of the others. `ranges`: what PyTorch
    promises of symbols, beyond what it found for its examples, by symbol.
    """

    def __init__(
        self,
        limits: Mapping[str, Limit] | None = None,
        most: int = MOST,
        ranges: Mapping[Any, Any] | None = None,
    ) -> None:
        self._known: dict[str, Size] = {}
        self._most = most
        self._ranges = dict(ranges or {})
        self.limits = dict(limits or {})

    def bind(self, dim: Any, name: str, given: Size | None = None) -> None:
        """Let a lone symbol be called `name`, or stand for a given size; one that is known stays as it is."""
        key = _name(dim)
        if key is None or key in self._known:
            return
        symbol = Symbol(name, *self._range(dim.node.expr, dim.node.shape_env))
        value = size(symbol) if given is None else given
        self._known[key] = limited(value, self.limits)

    def of(self, dim: Any) -> Size | None:
        """A size of a tensor's; None where it is no polynomial of sizes of inputs."""
        if isinstance(dim, int):
            return dim
        expression = dim.node.expr
        if expression.is_number:
            return int(expression)
        if not expression.is_polynomial():
            return None
        total: Size = 0
        symbols = sorted(expression.free_symbols, key=str)
        for powers, factor in expression.as_poly(*symbols).terms():
            term: Size = int(factor)
            for symbol, power in zip(symbols, powers, strict=True):
                value = self._value(symbol, dim.node.shape_env)
                if value is None:
                    return None
                for _ in range(power):
                    term = term * value
            total = total + term
        return total

    def _value(self, symbol: Any, environment: Any) -> Size | None:
        """The size of a symbol; None for one that the data decides."""
        key = str(symbol)
        if not key.startswith("s"):
            return None
        if key not in self._known:
            named = Symbol(key, *self._range(symbol, environment))
            self._known[key] = limited(size(named), self.limits)
        return self._known[key]

    def _range(self, symbol: Any, environment: Any) -> tuple[int, int]:
        """The least and the greatest value of a symbol, as PyTorch found them."""
        found = self._ranges.get(symbol) or environment.var_to_range.get(symbol)
        if found is None:
            return 1, self._most
        least = max(1, int(found.lower))
        most = int(found.upper) if found.upper.is_Integer else MOST
        return least, max(least, min(most, self._most))


def _name(dim: Any) -> str | None:
    """The name of a symbol that stands alone."""
    if isinstance(dim, int) or not dim.node.expr.is_symbol:
        return None
    return str(dim.node.expr)
