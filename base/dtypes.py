"""The element types graphc computes with: one row per type, and how they map to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from .errors import UserError
from .records import dataclass


@dataclass(frozen=True)
class FloatLayout:
    """The bit layout of a small float: sign, exponent, fraction, from the highest bit on.

    `specials`: `ieee` has infinities and NaNs; `fn` has one NaN, all bits set but the sign; `fnuz` has one NaN, the
    pattern of -0; `finite` has neither, and values out of range become the largest number.
    """

    exponent: int
    fraction: int
    bias: int
    specials: str

    @property
    def sign(self) -> int:
        """The bit of the sign."""
        return 1 << self.exponent + self.fraction

    @property
    def largest(self) -> int:
        """The pattern of the largest finite number."""
        every = self.sign - 1
        above = {"ieee": 1 << self.fraction, "fn": 1, "fnuz": 0, "finite": 0}
        return every - above[self.specials]


@dataclass(frozen=True, eq=False)
class DType:
    """An element type; there is one object for each, in every process.

    `kind` is one of `float`, `int`, `uint`, `bool`; `bits` is how many hold the value. In memory a bool takes one byte
    holding 0 or 1, and types of 2 and 4 bits one byte whose upper bits are not looked at.
    """

    name: str
    kind: str
    bits: int
    numpy: np.dtype[Any]
    layout: FloatLayout | None = None
    """Bit layout of floats of 8 bits or less, except `f8e8m0fnu`, which is only an exponent."""

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return by_name, (self.name,)

    @cached_property
    def size(self) -> int:
        """Bytes of one element in memory."""
        return self.numpy.itemsize

    @cached_property
    def is_float(self) -> bool:
        """Return whether the type is a floating-point type."""
        return self.kind == "float"

    @cached_property
    def is_signed(self) -> bool:
        """Return whether values may be negative."""
        return self.kind in ("float", "int") and not self.name.endswith("nu")

    @cached_property
    def accumulator(self) -> DType:
        """The type it is computed in: f32 for floats up to 16 bits, bytes for 2 and 4 bits, else the type itself."""
        if self.is_float:
            return F32 if self.bits <= 16 else self
        return self if self.kind == "bool" or self.bits >= 8 else _BY_NAME[f"{self.name[0]}8"]

    @cached_property
    def is_storage(self) -> bool:
        """Return whether values are only kept in this type: moved, selected and converted to another, `accumulator`."""
        return self.accumulator is not self

    @cached_property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer type."""
        digits = self.bits - (self.kind == "int")
        return -(1 << digits) if self.kind == "int" else 0, (1 << digits) - 1

    @cached_property
    def largest(self) -> float:
        """The largest number of a float type."""
        facts: Any = ml_dtypes.finfo(self.numpy)  # type: ignore[no-untyped-call]
        return float(facts.max)

    @cached_property
    def range(self) -> tuple[int, int]:
        """Binary digits of the numbers of a float type, and the exponent that none of them reaches."""
        facts: Any = ml_dtypes.finfo(self.numpy)  # type: ignore[no-untyped-call]
        return int(facts.nmant) + 1, int(facts.maxexp)

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


def _small(name: str, numpy: str, layout: FloatLayout | None = None) -> DType:
    """A type whose name ends its digits with the number of bits; others than floats begin with `s` or `u`."""
    kind = {"f": "float", "s": "int", "u": "uint"}[name[0]]
    return DType(name, kind, int(name[1]), np.dtype(getattr(ml_dtypes, numpy)), layout)


F8E8M0FNU = _small("f8e8m0fnu", "float8_e8m0fnu")
S4, U4 = _small("s4", "int4"), _small("u4", "uint4")
S2, U2 = _small("s2", "int2"), _small("u2", "uint2")

SMALL = (
    _small("f8e4m3fn", "float8_e4m3fn", FloatLayout(4, 3, 7, "fn")),
    _small("f8e4m3fnuz", "float8_e4m3fnuz", FloatLayout(4, 3, 8, "fnuz")),
    _small("f8e5m2", "float8_e5m2", FloatLayout(5, 2, 15, "ieee")),
    _small("f8e5m2fnuz", "float8_e5m2fnuz", FloatLayout(5, 2, 16, "fnuz")),
    F8E8M0FNU,
    _small("f4e2m1fn", "float4_e2m1fn", FloatLayout(2, 1, 1, "finite")),
    S4,
    U4,
    S2,
    U2,
)
"""Types that tensors are stored in, to take less room; called as in HLO."""

USUAL = (F64, F32, F16, BF16, S8, S16, S32, S64, U8, U16, U32, U64, BOOL)
ALL = (*USUAL, *SMALL)
_BY_NAME = {dtype.name: dtype for dtype in ALL}
_BY_NUMPY = {dtype.numpy: dtype for dtype in ALL}


_ALSO = {
    "double": F64, "float": F32, "half": F16, "bfloat": BF16, "long": S64, "short": S16,
    "char": S8, "byte": U8, "boolean": BOOL, "bool_": BOOL, "i1": BOOL,
    **{f"i{bits}": _BY_NAME[f"s{bits}"] for bits in (2, 4, 8, 16, 32, 64)},
    **{dtype.numpy.name.replace("_", ""): dtype for dtype in SMALL},  # as ONNX says it
    **{dtype.numpy.name: dtype for dtype in ALL},
}  # fmt: skip
"""Names that NumPy, ONNX, PyTorch and others use."""


def by_any_name(name: str) -> DType:
    """Return the dtype of a name in this or another library, in any case: `float32`, `BOOL`, `tensor(int64)`."""
    plain = name.lower().removeprefix("tensor(").removesuffix(")")
    return _ALSO[plain] if plain in _ALSO else by_name(plain if plain in _BY_NAME else name)


def by_name(name: str) -> DType:
    """Return the type called `name` (`f32`, `s64`, ...). Raise UserError if there is none."""
    if name not in _BY_NAME:
        raise UserError(f"dtype '{name}' is not known; known are {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def from_numpy(dtype: np.dtype) -> DType:
    """Return the type of a NumPy dtype, byte order ignored. Raise UserError if graphc has no such type."""
    if isinstance(dtype, np.dtype) and dtype in _BY_NUMPY:
        return _BY_NUMPY[dtype]
    native = np.dtype(dtype).newbyteorder("=")
    if native not in _BY_NUMPY:
        raise UserError(
            f"NumPy dtype '{dtype}' has no graphc type; known are {', '.join(_BY_NAME)}"
        )
    return _BY_NUMPY[native]
