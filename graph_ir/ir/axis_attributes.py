"""Attributes that are lists of numbers, or axes of the op's first operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...base.dims import Dim
from .attributes import REQUIRED, Attribute, AttributeOwner, IntAttr, integer, number_of

T = TypeVar("T")
Count = Callable[[Any], int]
"""The expected number of entries of a list, for an op."""


def rank_of_first(op: AttributeOwner) -> int:
    """Number of axes of the op's first operand."""
    return int(op.inputs[0].details.rank)


class ListAttr(Attribute[tuple[T, ...]]):
    """A list of values, numbers being `least` or more, with `count` entries if that is given, one for each of the
    `entries`.

    A default that is a number stands for that number `count` times.
    """

    def __init__(
        self,
        meaning: str = "",
        *,
        default: Any = REQUIRED,
        least: int | None = None,
        count: Count | None = None,
        entries: str = "axes",
    ) -> None:
        super().__init__(meaning, default=default)
        self.least, self.count, self.entries = least, count, entries

    def convert(self, value: Any) -> tuple[T, ...]:
        """A tuple of the entries, each in its own type."""
        if not isinstance(value, (tuple, list, np.ndarray)):
            raise TypeError
        return tuple(map(self.entry, value))

    def entry(self, value: Any) -> T:
        """One entry in the type of this attribute; raise TypeError if it is of another."""
        found: Any = super().convert(value)
        return found

    def check(self, op: AttributeOwner, value: Any) -> tuple[T, ...]:
        """Check the number of entries, and their range."""
        values: tuple[Any, ...] = super().check(op, value)
        wanted = len(values) if self.count is None else self.count(op)
        if len(values) != wanted:
            each = f"one entry for each of the {wanted} {self.entries}"
            raise op.rule(f"{self.key} must have {each}", str(list(values)))
        if self.least is not None and any(number < self.least for number in values):
            raise op.rule(f"{self.key} must be {self.least} or more", str(list(values)))
        return values

    def default_of(self, op: AttributeOwner) -> tuple[T, ...]:
        """A single number once for each entry."""
        value: Any = super().default_of(op)
        if self.count and isinstance(value, int):
            value = (value,) * self.count(op)
        return value


class IntsAttr(ListAttr[int]):
    """A list of integers."""

    type_name = "ints"
    wanted = "a list of integers"

    def entry(self, value: Any) -> int:
        """A Python int."""
        return integer(value)


class SizesAttr(IntsAttr):
    """A list of sizes: numbers, or expressions of sizes that are known at run time."""

    type_name = "sizes"
    wanted = "a list of sizes"

    def entry(self, value: Any) -> Any:
        """A Python int or an expression."""
        return value if isinstance(value, Dim) else integer(value)


class FloatsAttr(ListAttr[float]):
    """A list of numbers, kept as floats."""

    type_name = "floats"
    wanted = "a list of numbers"

    def entry(self, value: Any) -> float:
        """A Python float."""
        return float(number_of(value))


class SizeAttr(IntAttr):
    """A size: a number, or an expression of sizes that are known at run time."""

    type_name = "size"
    wanted = "a size"

    def convert(self, value: Any) -> Any:
        """A Python int or an expression."""
        return value if isinstance(value, Dim) else super().convert(value)


class AxisAttr(IntAttr):
    """An axis of the first operand: negative ones count from the back, and are kept counted from the front."""

    type_name = "axis"

    def check(self, op: AttributeOwner, value: Any) -> int:
        """0 <= axis < rank."""
        return normal_axis(op, super().check(op, value))

    def default_of(self, op: AttributeOwner) -> int:
        """The default counted from the front; raise UserError if the operand has no such axis."""
        return normal_axis(op, super().default_of(op))


class AxesAttr(IntsAttr):
    """Distinct axes of the first operand, kept in rising order from the front; none stands for all of them."""

    type_name = "axes"
    wanted = "a list of integers"

    def check(self, op: AttributeOwner, value: Any) -> tuple[int, ...]:
        """Axes the operand has, each once."""
        if value is None and self.default is None:
            return self.default_of(op)
        axes = [normal_axis(op, axis) for axis in super().check(op, value)]
        if len(set(axes)) != len(axes):
            raise op.rule("axes must be distinct", str(tuple(axes)))
        return tuple(sorted(axes))

    def default_of(self, op: AttributeOwner) -> tuple[int, ...]:
        """All axes where the default is none."""
        value: Any = super().default_of(op)
        return tuple(range(rank_of_first(op))) if value is None else value

    def default_text(self) -> str:
        """All axes are said so."""
        return "all" if self.default is None else super().default_text()


class PermutationAttr(IntsAttr):
    """Every axis of the first operand once, in any order."""

    type_name = "permutation"

    def __init__(self, meaning: str = "") -> None:
        super().__init__(meaning, count=rank_of_first)

    def check(self, op: AttributeOwner, value: Any) -> tuple[int, ...]:
        """Check the number of axes, and return them counted from the front."""
        given, rank = super().check(op, value), rank_of_first(op)
        axes = tuple(normal_axis(op, axis) for axis in given)
        if len(set(axes)) != rank:
            raise op.rule(f"{self.key} must name each of the {rank} axes once", str(list(given)))
        return axes


def normal_axis(op: AttributeOwner, axis: int) -> int:
    """`axis` of the first operand as 0 <= axis < rank. UserError in the name of `op` where it is outside."""
    rank = rank_of_first(op)
    if not -rank <= axis < rank:
        raise op.rule(f"axis must be in [{-rank}, {rank})", str(axis))
    return axis % rank
