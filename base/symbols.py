"""Symbols: names of sizes that are known when a model runs, with ranges; what is said where a decision needs more."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Mapping
from functools import total_ordering
from itertools import count
from typing import Any

from .errors import UnsupportedError, UserError
from .records import dataclass

MOST = (1 << 31) - 1
"""The greatest value of a symbol without a bound."""

TYPICAL = 64
"""The value of a symbol without a bound that cost models assume."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


class UndecidedSize(UnsupportedError):
    """A decision depends on a size that is known at run time."""


@dataclass(frozen=True)
class Limit:
    """A constraint of an op on a size: a range, a `divisor`, or equality with sizes of other inputs (`equal`)."""

    least: int = 0
    most: int = MOST
    divisor: int = 1
    equal: Any = None

    def within(self, other: Limit) -> Limit:
        """Both."""
        least, most = max(self.least, other.least), min(self.most, other.most)
        equal = other.equal if self.equal is None else self.equal
        return Limit(least, most, math.lcm(self.divisor, other.divisor), equal)


Limits = Mapping[str, Limit]
"""Limits of sizes by name."""


class NeedsLimit(UndecidedSize):
    """A decision that is known if the size `name` is within `limit`: a model with that limit can be made."""

    def __init__(self, message: str, name: str, limit: Limit) -> None:
        super().__init__(message)
        self.name, self.limit = name, limit


class UndecidedOrder(UndecidedSize):
    """A comparison that no range decides: whether `holds` of the sign of `difference`."""

    def __init__(self, message: str, difference: Any, holds: Callable[[int], bool]) -> None:
        super().__init__(message)
        self.difference, self.holds = difference, holds


@total_ordering
@dataclass(frozen=True)
class Symbol:
    """A named size from `least` to `most`, both inclusive. Raise UserError for a name or range that cannot be one.

    0 is for the length of a cache; most programs depend on there being elements, and raise `UndecidedSize`.
    """

    name: str
    least: int = 1
    most: int = MOST

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise UserError(
                f"a size must be named by letters, digits and _, at most 40, got '{self.name}'"
            )
        if not 0 <= self.least <= self.most <= MOST:
            raise UserError(
                f"size '{self.name}' must have a range from 0 to 2^31 - 1 that is not empty, "
                f"got {self.least}..{self.most}"
            )

    @property
    def range_text(self) -> str:
        """`1..64`, `1..` without an upper bound."""
        return f"{self.least}..{self.most if self.most < MOST else ''}"

    @property
    def has_range(self) -> bool:
        """Return whether it is bounded."""
        return (self.least, self.most) != (1, MOST)

    @property
    def typical(self) -> int:
        """The value that cost models assume."""
        return min(max(self.least, TYPICAL), self.most)

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """Itself."""
        return (self,)

    def value(self, values: Mapping[str, int]) -> int:
        """The symbol's number among `values`, by name."""
        return values[self.name]

    @property
    def rank(self) -> tuple[int, str, int, int]:
        """The order of what expressions are made of: symbols by name, then others."""
        return 0, self.name, self.least, self.most

    def __lt__(self, other: Any) -> bool:
        return self.rank < other.rank


def fresh_symbol_name(text: str, taken: Container[str]) -> str:
    """`text`, or with a number behind it where that is taken."""
    return next(
        name for name in (f"{text}_{i}" if i else text for i in count(0)) if name not in taken
    )


def symbol_name(text: str) -> str:
    """A name for a symbol that resembles any text: letters, digits and _, at most 30."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "_", text)[:30].strip("_") or "size"
    return f"_{plain}" if plain[0].isdigit() else plain
