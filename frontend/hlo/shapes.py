"""Shapes of HLO text: element type, sizes, layout, tuples."""

from __future__ import annotations

import math

import numpy as np

from ...base.records import dataclass
from ..correspondence.element_types import element_types

_SMALL_FLOATS = (
    "float8_e5m2", "float8_e4m3", "float8_e4m3fn", "float8_e4m3b11fnuz", "float8_e3m4", "float8_e5m2fnuz",
    "float8_e4m3fnuz", "float8_e8m0fnu", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn",
)  # fmt: skip

DTYPES = element_types("hlo")
"""The element types graphc computes with, by their HLO names."""

NUMPY: dict[str, np.dtype] = {
    **{name: dtype.numpy for name, dtype in DTYPES.items()},
    **{name.replace("float", "f").replace("_", ""): np.dtype(name) for name in _SMALL_FLOATS},
    **{f"u{b}": np.dtype(f"uint{b}") for b in (2, 4)},
    **{f"s{b}": np.dtype(f"int{b}") for b in (2, 4)},
    "s1": np.dtype(np.int8),
    "u1": np.dtype(np.uint8),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}  # fmt: skip
"""NumPy types that hold the values of every HLO element type; the small ones have names once ml_dtypes is loaded."""

PARTS = {"c64": "f32", "c128": "f64"}
"""Complex types and that of their real and imaginary parts."""

BITLESS = ("token", "opaque")
"""Types without elements."""

HLO_NAMES = {dtype: name for name, dtype in DTYPES.items()}
"""The HLO name of a graphc type."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`minor_to_major` axes; `properties` is the text of tiles, memory space and so on, which change no value."""

    minor_to_major: tuple[int, ...]
    properties: str = ""

    def __str__(self) -> str:
        tail = f":{self.properties}" if self.properties else ""
        return f"{{{','.join(map(str, self.minor_to_major))}{tail}}}"


UNBOUNDED = -1
"""The size of a dimension written `?`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """An array (`type`, `dims`), or a tuple of shapes (`type` is "tuple").

    `dynamic` lists the axes whose size is only a bound; a size without a bound is `UNBOUNDED`. `layout` is None where
    the text gives none, which means row major.
    """

    type: str
    dims: tuple[int, ...] = ()
    layout: Layout | None = None
    dynamic: tuple[int, ...] = ()
    elements: tuple[Shape, ...] = ()

    @property
    def is_tuple(self) -> bool:
        """Return whether this is a tuple."""
        return self.type == "tuple"

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Number of elements, bounds taken as sizes."""
        return math.prod(self.dims)

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """The axes from the fastest to the slowest; row major where no layout is given."""
        return self.layout.minor_to_major if self.layout else tuple(range(self.rank))[::-1]

    def logical(self) -> str:
        """The shape without layouts: `f32[2,3]`, `(f32[], s32[4])`."""
        return self._text(layouts=False)

    def matches(self, other: Shape) -> bool:
        """Return whether both are the same shape, layouts and dynamic sizes aside."""
        if self.type != other.type or len(self.elements) != len(other.elements):
            return False
        if self.dims != other.dims and UNBOUNDED not in self.dims + other.dims:
            return False
        return len(self.dims) == len(other.dims) and all(
            a.matches(b) for a, b in zip(self.elements, other.elements, strict=True)
        )

    def _text(self, layouts: bool) -> str:
        if self.is_tuple:
            return f"({', '.join(e._text(layouts) for e in self.elements)})"
        sizes = (
            "?" if d == UNBOUNDED else f"<={d}" if i in self.dynamic else str(d)
            for i, d in enumerate(self.dims)
        )
        tail = str(self.layout) if layouts and self.layout and self.dims else ""
        return f"{self.type}[{','.join(sizes)}]{tail}"

    def __str__(self) -> str:
        return self._text(layouts=True)


def tuple_shape(elements: tuple[Shape, ...]) -> Shape:
    """The tuple of `elements`."""
    return Shape("tuple", elements=elements)
