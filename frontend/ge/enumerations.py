"""GE's numbers and names of element types."""

from __future__ import annotations

from ...base.dtypes import DType
from ..correspondence.element_types import element_types, written_names
from ..correspondence.writing import InexpressibleError

_TYPES = element_types("ge")
_NUMBERS = {dtype: int(name) for dtype, name in written_names(_TYPES).items()}


def dtype_number(dtype: DType) -> int:
    """Return GE's number of an element type. Raise InexpressibleError if it has none."""
    if dtype not in _NUMBERS:
        raise InexpressibleError(f"elements of {dtype}")
    return _NUMBERS[dtype]


def to_dtype(value: object) -> DType | None:
    """The element type of an attribute, given as a number or a name; None where graphc has no such type."""
    return None if isinstance(value, bool) else _TYPES.get(str(value).removesuffix("'"))
