"""The type of a tensor: element type, plain shape, and layout in memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from ...base.dims import Dim, Size, is_known, substitute
from ...base.dtypes import DType
from ...base.errors import UserError
from ...base.records import dataclass
from ...base.size_queries import typical_all
from .format import Format, plain


@dataclass(frozen=True)
class LogicalTensor:
    """dtype, `plain_dims` (what the user sees) and `format`; the array in memory has `physical_dims`.

    A size is a number, or an expression (`base.dims`) of sizes that are known at run time.

    Raise UserError for a negative size or a format of another rank.
    """

    dtype: DType
    plain_dims: tuple[Any, ...]
    format: Format = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        dims = tuple(map(_size, self.plain_dims))
        object.__setattr__(self, "plain_dims", dims)
        if self.format is None:
            object.__setattr__(self, "format", plain(len(dims)))
        if any(size < 0 for size in dims):
            shown = ", ".join(map(str, self.plain_dims))
            raise UserError(f"tensor sizes must not be negative, got [{shown}]")
        if self.format.rank != self.rank:
            raise UserError(f"format '{self.format}' must have the axes of the tensor, {self}")

    @property
    def physical_dims(self) -> tuple[Any, ...]:
        """Shape of the array in memory, padding included."""
        return self.format.physical_dims(self.plain_dims)

    @property
    def rank(self) -> int:
        """Number of plain axes."""
        return len(self.plain_dims)

    @property
    def elements(self) -> Any:
        """Number of elements the user sees."""
        return math.prod(self.plain_dims)

    @property
    def is_empty(self) -> bool:
        """Return whether it has no elements, as far as is known."""
        return 0 in self.plain_dims

    @property
    def size_bytes(self) -> Any:
        """Bytes in memory, padding included."""
        return math.prod(self.physical_dims) * self.dtype.size

    @property
    def is_known(self) -> bool:
        """Return whether all sizes are numbers."""
        return is_known(*self.plain_dims)

    @property
    def typical(self) -> LogicalTensor:
        """The tensor that cost models assume: with numbers for sizes that are known at run time."""
        return self if self.is_known else replace(self, plain_dims=typical_all(self.plain_dims))

    def with_format(self, format: Format) -> LogicalTensor:
        """The same tensor in another layout."""
        return replace(self, format=format)

    def __str__(self) -> str:
        dims = ",".join(map(str, self.plain_dims))
        return (
            f"{self.dtype}[{dims}]"
            if self.format.is_plain
            else f"{self.dtype}[{dims}]{{{self.format}}}"
        )


def _size(size: Size) -> Size:
    return size if isinstance(size, Dim) else int(size)


def known(value: Any, sizes: Mapping[str, Size]) -> Any:
    """An attribute or a type with numbers, or other sizes, for the sizes that have one, by name; others stay."""
    if not sizes:
        return value
    if isinstance(value, Dim):
        return substitute(value, sizes)
    if isinstance(value, LogicalTensor):
        return replace(value, plain_dims=known(value.plain_dims, sizes))
    if hasattr(value, "at_sizes"):
        return value.at_sizes(sizes)
    if isinstance(value, (tuple, list)):
        return type(value)(known(one, sizes) for one in value)
    return value
