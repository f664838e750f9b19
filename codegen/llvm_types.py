"""Spelling of Tensor IR types and literals in LLVM IR text.

Floats of 16 bits or less are held as `i16` and `i8` bit patterns, in registers and in memory: they are only moved,
selected and converted, and LLVM's own `half` and `bfloat` would emit calls to a library that may be missing. A type of
2 or 4 bits is an `i8` with other bits above, which a conversion does not read. A bool is `i1` in registers and `i8` 0
or 1 in memory.
"""

from __future__ import annotations

import struct
from functools import cache

from ..base.dtypes import BOOL, F32, F64, DType
from ..tensor_ir.arithmetic import literal as numpy_literal

IN_ORDER = "graphc-in-order"
"""The attribute of functions whose instructions LLVM keeps in their order."""

IN_LOOPS = "graphc-in-loops"
"""The attribute of functions out of whose loops LLVM moves nothing."""


@cache
def element_type(dtype: DType) -> str:
    """The type of one element in a register."""
    if dtype == F32:
        return "float"
    if dtype == F64:
        return "double"
    return "i1" if dtype == BOOL else f"i{max(dtype.bits, 8)}"


def memory_type(dtype: DType) -> str:
    """The type of one element in memory."""
    return "i8" if dtype == BOOL else element_type(dtype)


def vector_of(element: str, lanes: int) -> str:
    """`<8 x float>`; the element itself for one lane."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def type_of(dtype: DType, lanes: int) -> str:
    """The type of a value in registers."""
    return vector_of(element_type(dtype), lanes)


def mangled(dtype: DType, lanes: int) -> str:
    """The suffix of an overloaded intrinsic: `f32`, `v8i16`."""
    name = f"f{dtype.bits}" if dtype in (F32, F64) else element_type(dtype)
    return name if lanes == 1 else f"v{lanes}{name}"


def splat(element: str, text: str, lanes: int) -> str:
    """A literal in every lane, without its type."""
    return text if lanes == 1 else f"splat ({element} {text})"


def constant(value: int | float | bool, dtype: DType, lanes: int = 1) -> str:
    """A literal of Tensor IR in every lane, without its type. Raise InternalError if `value` is none of `dtype`."""
    return splat(element_type(dtype), _scalar_literal(value, dtype), lanes)


def _scalar_literal(value: int | float | bool, dtype: DType) -> str:
    exact = numpy_literal(value, dtype)
    if dtype in (F32, F64):
        # LLVM writes both types as the bits of a double.
        return f"0x{struct.pack('>d', float(exact)).hex().upper()}"
    if dtype.is_float:
        return str(int.from_bytes(exact.tobytes(), "little"))
    return str(int(exact)) if dtype != BOOL else str(bool(exact)).lower()


def lane_mask(lanes: int, active: int) -> str:
    """The constant of type <lanes x i1> whose first `active` lanes are set."""
    if active == lanes:
        return "splat (i1 true)"
    return f"<{', '.join(f'i1 {str(lane < active).lower()}' for lane in range(lanes))}>"


def lane_numbers(numbers: list[int]) -> str:
    """The last operand of a `shufflevector`, with its type; -1 is a lane that is never read."""
    lanes = ", ".join("i32 poison" if n < 0 else f"i32 {n}" for n in numbers)
    return f"<{len(numbers)} x i32> <{lanes}>"
