"""The type of a tensor: element type, plain shape, and layout in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from ...base.dtypes import DType
from ...base.errors import UserError
from .format import Format, plain


@dataclass(frozen=True)
class LogicalTensor:
    """dtype, `plain_dims` (what the user sees) and `format`; the array in memory has `physical_dims`.

    UserError for a negative size or a format of another rank.
    """

    dtype: DType
    plain_dims: tuple[int, ...]
    format: Format = field(default=None)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain_dims", tuple(int(size) for size in self.plain_dims))
        if self.format is None:
            object.__setattr__(self, "format", plain(len(self.plain_dims)))
        if min(self.plain_dims, default=0) < 0:
            raise UserError(f"tensor sizes must not be negative, got {list(self.plain_dims)}")
        if self.format.rank != self.rank:
            raise UserError(
                f"format '{self.format}' has {self.format.rank} axes, but the tensor is {self}"
            )

    @property
    def physical_dims(self) -> tuple[int, ...]:
        """Shape of the array in memory, padding included."""
        return self.format.physical_dims(self.plain_dims)

    @property
    def rank(self) -> int:
        """Number of plain axes."""
        return len(self.plain_dims)

    @property
    def elements(self) -> int:
        """Number of elements the user sees."""
        return math.prod(self.plain_dims)

    @property
    def size_bytes(self) -> int:
        """Bytes in memory, padding included."""
        return math.prod(self.physical_dims) * self.dtype.size

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
