"""Element types of matmuls and convolutions: one type for all, or 8-bit integers with exact s32 results."""

from __future__ import annotations

from ...base.dtypes import BF16, F16, F32, S16, S32, DType
from ..ir.attributes import Attribute, DTypeAttr, optional
from ..ir.graph import Op
from ..ir.logical_tensor import LogicalTensor


def result_dtype_attr() -> Attribute[DType | None]:
    """The attribute `dtype` of ops that multiply two operands."""
    return optional(
        DTypeAttr(
            "s32: operands are s8 or u8 in any pairing, or s16 the second, accumulated exactly modulo 2^32; "
            "f32: they are f16 or bf16, sums are not rounded to their type; none: theirs"
        )
    )


def contraction_dtype(op: Op, a: LogicalTensor, b: LogicalTensor, requested: DType | None) -> DType:
    """The element type of the result. Raise UserError if the operands cannot be multiplied in that type."""
    if requested is None:
        if a.dtype != b.dtype:
            raise op.rule(
                "both inputs must have one dtype", f"{a.dtype} and {b.dtype}", "insert a cast"
            )
        if a.dtype.is_float and a.dtype.bits < 16:
            raise op.rule("floats must have 16 bits or more", str(a.dtype), "insert a cast")
        return a.dtype
    if requested == F32:
        if a.dtype not in (F16, BF16) or a.dtype != b.dtype:
            rule = "with dtype=f32 both inputs must be f16 or both bf16"
            raise op.rule(rule, f"{a.dtype} and {b.dtype}", "insert a cast")
        return requested
    if requested != S32:
        raise op.rule("dtype must be s32, f32 or left out", str(requested), "insert a cast")
    if not is_byte(a.dtype) or not (is_byte(b.dtype) or b.dtype == S16):
        rule = "with dtype=s32 both inputs must be s8 or u8, the second may be s16"
        raise op.rule(rule, f"{a.dtype} and {b.dtype}")
    return requested


def is_byte(dtype: DType) -> bool:
    """Return whether the type is s8 or u8."""
    return dtype.bits == 8 and dtype.kind in ("int", "uint")
