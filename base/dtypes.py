"""The element types graphc computes with: one row per type, and how they map to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import ml_dtypes
import numpy as np

from .errors import UserError
from .records import dataclass


@dataclass(frozen=True, eq=False)
class DType:
    """An element type; there is one object for each, in every process.

    `kind` is one of `float`, `int`, `uint`, `bool`; `bits` is the size in registers. In memory a
    bool takes one byte holding 0 or 1.
    """

    name: str
    kind: str
    bits: int
    numpy: np.dtype

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return by_name, (self.name,)

    @cached_property
    def size(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @cached_property
    def is_float(self) -> bool:
        """Whether the type is a floating-point type."""
        return self.kind == "float"

    @cached_property
    def is_signed(self) -> bool:
        """Whether values may be negative."""
        return self.kind in ("float", "int")

    @cached_property
    def accumulator(self) -> DType:
        """The type sums are accumulated in: f32 for 16-bit floats, else the type itself."""
        return F32 if self.is_float and self.bits == 16 else self

    def __repr__(self) -> str:
        return self.name


F64 = DType("f64", "float", 64, np.dtype("float64"))
F32 = DType("f32", "float", 32, np.dtype("float32"))
F16 = DType("f16", "float", 16, np.dtype("float16"))
BF16 = DType("bf16", "float", 16, np.dtype(ml_dtypes.bfloat16))
S8 = DType("s8", "int", 8, np.dtype("int8"))
S16 = DType("s16", "int", 16, np.dtype("int16"))
S32 = DType("s32", "int", 32, np.dtype("int32"))
S64 = DType("s64", "int", 64, np.dtype("int64"))
U8 = DType("u8", "uint", 8, np.dtype("uint8"))
U16 = DType("u16", "uint", 16, np.dtype("uint16"))
U32 = DType("u32", "uint", 32, np.dtype("uint32"))
U64 = DType("u64", "uint", 64, np.dtype("uint64"))
BOOL = DType("bool", "bool", 1, np.dtype("bool"))

ALL = (F64, F32, F16, BF16, S8, S16, S32, S64, U8, U16, U32, U64, BOOL)
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_NUMPY = {dtype.numpy: dtype for dtype in ALL}


_ALSO = {
    "double": F64, "float": F32, "half": F16, "bfloat": BF16, "long": S64, "short": S16,
    "char": S8, "byte": U8, "boolean": BOOL, "bool_": BOOL, "i1": BOOL,
    **{f"i{bits}": _BY_NAME[f"s{bits}"] for bits in (8, 16, 32, 64)},
    **{dtype.numpy.name: dtype for dtype in ALL},
}  # fmt: skip
"""Names that NumPy, ONNX, PyTorch and others use."""


def by_any_name(name: str) -> DType:
    """As `by_name`; the names of other libraries count too, in any case: `float32`, `BOOL`, `tensor(int64)`."""
    plain = name.lower().removeprefix("tensor(").removesuffix(")")
    return _ALSO[plain] if plain in _ALSO else by_name(plain if plain in _BY_NAME else name)


def by_name(name: str) -> DType:
    """Return the type called `name` (`f32`, `s64`, ...). UserError when there is none."""
    if name not in _BY_NAME:
        raise UserError(f"dtype '{name}' is not known; known are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def from_numpy(dtype: np.dtype) -> DType:
    """Return the type of a NumPy dtype, byte order ignored. UserError when graphc has no such type."""
    native = np.dtype(dtype).newbyteorder("=")
    if native not in _BY_NUMPY:
        raise UserError(
            f"NumPy dtype '{dtype}' has no graphc type; known are {', '.join(_BY_NAME)}"
        )
    return _BY_NUMPY[native]
