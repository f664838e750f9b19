"""Attributes that are lists of numbers, or axes of the op's first operand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.dims import Dim
from .attributes import REQUIRED, Attribute, AttributeOwner, IntAttr, integer, number_of

Count = Callable[[Any], int]
"""The expected number of entries of a list, for an op."""


def rank_of_first(op: AttributeOwner) -> int:
    """Number of axes of the op's first operand."""
    return int(op.inputs[0].details.rank)


class IntsAttr(Attribute[tuple[int, ...]]):
    """A list of integers, each `least` or more; `count` entries (one for each of the `entries`), if that is given.

    A default that is a number stands for that number `count` times.
    """

    type_name = "ints"
    wanted = "a list of integers"

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

    def convert(self, value: Any) -> tuple[int, ...]:
        """A tuple of Python ints."""
        return tuple(integer(item) for item in _items(value))

    def check(self, op: AttributeOwner, value: Any) -> tuple[int, ...]:
        """Check the number of entries, and their range."""
        numbers = super().check(op, value)
        _check_count(self, op, numbers, self.count, self.entries)
        if self.least is not None and any(number < self.least for number in numbers):
            raise op.rule(f"{self.key} must be {self.least} or more", str(list(numbers)))
        return numbers

    def default_of(self, op: AttributeOwner) -> tuple[int, ...]:
        """A single number once for each entry."""
        value: Any = super().default_of(op)
        return (value,) * self.count(op) if self.count and isinstance(value, int) else value


class SizesAttr(IntsAttr):
    """A list of sizes: numbers, or expressions of sizes that are known at run time."""

    type_name = "sizes"
    wanted = "a list of sizes"

    def convert(self, value: Any) -> tuple[Any, ...]:
        """A tuple of Python ints and expressions."""
        return tuple(x if isinstance(x, Dim) else integer(x) for x in _items(value))


class SizeAttr(IntAttr):
    """A size: a number, or an expression of sizes that are known at run time."""

    type_name = "size"
    wanted = "a size"

    def convert(self, value: Any) -> Any:
        """A Python int or an expression."""
        return value if isinstance(value, Dim) else super().convert(value)


class FloatsAttr(Attribute[tuple[float, ...]]):
    """A list of numbers, kept as floats; `count` entries, if that is given."""

    type_name = "floats"
    wanted = "a list of numbers"

    def __init__(
        self, meaning: str = "", *, default: Any = REQUIRED, count: Count | None = None
    ) -> None:
        super().__init__(meaning, default=default)
        self.count = count

    def convert(self, value: Any) -> tuple[float, ...]:
        """A tuple of Python floats."""
        return tuple(float(number_of(item)) for item in _items(value))

    def check(self, op: AttributeOwner, value: Any) -> tuple[float, ...]:
        """Check the number of entries."""
        numbers = super().check(op, value)
        _check_count(self, op, numbers, self.count, "")
        return numbers


class AxisAttr(IntAttr):
    """An axis of the first operand: negative ones count from the back, and are kept counted from the front."""

    type_name = "axis"

    def check(self, op: AttributeOwner, value: Any) -> int:
        """0 <= axis < rank."""
        return normal_axis(op, super().check(op, value))

    def default_of(self, op: AttributeOwner) -> int:
        """The default counted from the front; raise UserError if the operand has no such axis."""
        return normal_axis(op, super().default_of(op))


class AxesAttr(Attribute[tuple[int, ...]]):
    """Distinct axes of the first operand, kept in rising order from the front; none stands for all of them."""

    type_name = "axes"
    wanted = "a list of integers"

    def __init__(self, meaning: str = "", *, default: Any = REQUIRED) -> None:
        super().__init__(meaning, default=default)

    def convert(self, value: Any) -> tuple[int, ...]:
        """A tuple of Python ints."""
        return tuple(integer(item) for item in _items(value))

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


class PermutationAttr(AxesAttr):
    """Every axis of the first operand once, in any order."""

    type_name = "permutation"

    def check(self, op: AttributeOwner, value: Any) -> tuple[int, ...]:
        """Check the number of axes, and return them counted from the front."""
        given, rank = Attribute.check(self, op, value), rank_of_first(op)
        _check_count(self, op, given, rank_of_first, "axes")
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


def _items(value: Any) -> Sequence[Any]:
    if not isinstance(value, (tuple, list, np.ndarray)):
        raise TypeError
    return list(value)


def _check_count(
    attribute: Attribute[Any],
    op: AttributeOwner,
    values: Sequence[Any],
    count: Count | None,
    entries: str,
) -> None:
    wanted = len(values) if count is None else count(op)
    if len(values) != wanted:
        each = f"one entry for each of the {wanted} {entries}" if entries else f"{wanted} entries"
        raise op.rule(f"{attribute.key} must have {each}", str(list(values)))
