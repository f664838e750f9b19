"""GE's numbers and names of element types."""

from __future__ import annotations

from ...base.dtypes import BF16, BOOL, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64, DType

DTYPES = {
    0: F32, 1: F16, 2: S8, 3: S32, 4: U8, 6: S16, 7: U16, 8: U32, 9: S64, 10: U64, 11: F64, 12: BOOL, 27: BF16,
}  # fmt: skip
"""GE's number of each element type graphc has."""

NAMES = {
    "DT_FLOAT": F32, "DT_FLOAT16": F16, "DT_INT8": S8, "DT_INT32": S32, "DT_UINT8": U8, "DT_INT16": S16,
    "DT_UINT16": U16, "DT_UINT32": U32, "DT_INT64": S64, "DT_UINT64": U64, "DT_DOUBLE": F64, "DT_BOOL": BOOL,
    "DT_BF16": BF16,
}  # fmt: skip

_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def dtype_number(dtype: DType) -> int:
    """GE's number of an element type."""
    return _NUMBERS[dtype]


def to_dtype(value: object) -> DType | None:
    """The element type of an attribute, given as a number or a name; None where graphc has no such type."""
    if isinstance(value, int) and not isinstance(value, bool):
        return DTYPES.get(value)
    return NAMES.get(str(value).removesuffix("'"))
