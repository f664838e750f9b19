"""Conversion between element types, lane by lane, as `nodes` defines it."""

from __future__ import annotations

from ..base.dtypes import BF16, BOOL, F8E8M0FNU, F16, F32, F64, S16, S32, U32, DType
from .capabilities import Capabilities
from .instruction_stream import InstructionStream
from .llvm_types import constant, mangled, splat, type_of, vector_of
from .small_floats import SmallFloats


class Casts(SmallFloats):
    """Emits conversions into one function."""

    def __init__(self, stream: InstructionStream, can: Capabilities) -> None:
        super().__init__(stream)
        self._can = can

    def cast(self, value: str, source: DType, target: DType, lanes: int) -> str:
        """`value` of type `source` as `target`, rounded once. Storage types go through what they are computed in."""
        if source == target:
            return value
        if source.is_storage:
            return self.cast(self._widen(value, source, lanes), source.accumulator, target, lanes)
        if target.is_storage and target.is_float:
            single = self._single_for_small(value, source, target, lanes)
            return self._from_single(single, target, lanes)
        if target.is_storage:
            return self._to_part_of_byte(value, source, target, lanes)
        if target == BOOL:
            compare = "fcmp une" if source.is_float else "icmp ne"
            zero = constant(0, source, lanes)
            return self._pure(f"{compare} {type_of(source, lanes)} {value}, {zero}", lanes, value)
        if source.is_float and not target.is_float:
            return self._float_to_int(value, source, target, lanes)
        return self._convert(_instruction(source, target), value, source, target, lanes)

    def _widen(self, value: str, source: DType, lanes: int) -> str:
        """A value of a storage type in the type it is computed in, exact."""
        if source.is_float:
            return self._to_single(value, source, lanes)
        kind = type_of(source, lanes)

        def with_number(op: str, left: str, number: int) -> str:
            return self._pure(f"{op} {kind} {left}, {splat('i8', str(number), lanes)}", lanes, left)

        if not source.is_signed:
            return with_number("and", value, (1 << source.bits) - 1)
        return with_number("ashr", with_number("shl", value, 8 - source.bits), 8 - source.bits)

    def _to_part_of_byte(self, value: str, source: DType, target: DType, lanes: int) -> str:
        """Integers wrap and floats saturate; the bits above are zero, as in ml_dtypes."""
        if source.is_float:
            byte = self._float_to_int(value, source, target, lanes)
        else:
            byte = self.cast(value, source, target.accumulator, lanes)
        mask = splat("i8", str((1 << target.bits) - 1), lanes)
        return self._pure(f"and {type_of(target, lanes)} {byte}, {mask}", lanes, byte)

    def _single_for_small(self, value: str, source: DType, target: DType, lanes: int) -> str:
        """An f32 that rounds to the same small float as `value` does."""
        # Integers that f32 has no room for are beyond f16 and all smaller types anyway, except for an exponent alone.
        has_room = target not in (BF16, F8E8M0FNU)
        if source != F64 and (source.is_float or source.bits < 32 or has_room):
            return self.cast(value, source, F32, lanes)
        if source.bits == 64 and source != F64:
            value = self._keep_53_bits(value, source, lanes)
        return self._odd_single(self.cast(value, source, F64, lanes), lanes)

    def _keep_53_bits(self, value: str, source: DType, lanes: int) -> str:
        """Beyond 2**53: the lowest bit that f64 has room for says whether any below was set."""
        kind = type_of(source, lanes)

        def with_number(op: str, left: str, number: int) -> str:
            return self._pure(
                f"{op} {kind} {left}, {splat('i64', str(number), lanes)}", lanes, left
            )

        limit = splat("i64", str(2**54 if source.is_signed else 2**53), lanes)
        shifted = with_number("add", value, 2**53) if source.is_signed else value
        far = self._compare("icmp uge", kind, shifted, limit, lanes)
        below = with_number("and", value, 0x7FF)
        some = self._compare("icmp ne", kind, below, splat("i64", "0", lanes), lanes)
        flag = self._pure(f"zext {vector_of('i1', lanes)} {some} to {kind}", lanes, some)
        high, last = with_number("and", value, ~0x7FF), with_number("shl", flag, 11)
        kept = self._pure(f"or {kind} {high}, {last}", lanes, high, last)
        return self._choose(far, kept, value, lanes, source)

    def _odd_single(self, value: str, lanes: int) -> str:
        """f64 as f32; what is not exact becomes the neighbor whose last bit is set, so rounding again rounds once."""
        wide, i32 = type_of(F64, lanes), type_of(S32, lanes)
        single = self._convert("fptrunc", value, F64, F32, lanes)
        back = self._convert("fpext", single, F32, F64, lanes)
        inexact = self._compare("fcmp one", wide, back, value, lanes)
        sizes = [
            self._stream.intrinsic(
                f"llvm.fabs.{mangled(F64, lanes)}", wide, (wide, v), movable=lanes == 1
            )
            for v in (back, value)
        ]
        beyond = self._compare("fcmp ogt", wide, sizes[0], sizes[1], lanes)
        one = self._pure(f"zext {vector_of('i1', lanes)} {beyond} to {i32}", lanes, beyond)
        bits = self._bits("i32", single, lanes)
        inside = self._pure(f"sub {i32} {bits}, {one}", lanes, bits, one)
        odd = self._int("or", inside, 1, lanes)
        return self._bits("float", self._choose(inexact, odd, bits, lanes), lanes)

    def _float_to_int(self, value: str, source: DType, target: DType, lanes: int) -> str:
        """Saturating; NaN becomes 0. Up to s32 between bounds, as LLVM has no vectors of its saturating conversion."""
        if target.bits > 32 or target == U32:
            name = "fptosi" if target.is_signed else "fptoui"
            suffix = f"{mangled(target, lanes)}.{mangled(source, lanes)}"
            return self._stream.intrinsic(
                f"llvm.{name}.sat.{suffix}",
                type_of(target, lanes),
                (type_of(source, lanes), value),
                movable=lanes == 1,
            )
        low = -(1 << target.bits - 1) if target.is_signed else 0
        above = low + (1 << target.bits)
        # The largest number of the source below `above`, which f32 lacks for s32.
        high = above - 1 if target != S32 or source == F64 else above - 128
        inside = value
        if low:
            number = self._compare("fcmp ord", type_of(source, lanes), value, value, lanes)
            inside = self._choose(number, value, constant(0.0, source, lanes), lanes, source)
        inside = self._bounded("fcmp ogt", inside, low, source, lanes)  # NaN to 0, if still there
        inside = self._bounded("fcmp olt", inside, high, source, lanes)
        whole = self._convert("fptosi", inside, source, S32, lanes)
        if high == above - 1:
            return self._convert("trunc" if target.bits < 32 else "", whole, S32, target, lanes)
        limit = constant(float(above), source, lanes)
        beyond = self._compare("fcmp oge", type_of(source, lanes), value, limit, lanes)
        return self._choose(beyond, constant(above - 1, S32, lanes), whole, lanes)

    def _bounded(self, op: str, value: str, bound: int, source: DType, lanes: int) -> str:
        limit = constant(float(bound), source, lanes)
        inside = self._compare(op, type_of(source, lanes), value, limit, lanes)
        return self._choose(inside, value, limit, lanes, source)

    def _to_single(self, value: str, source: DType, lanes: int) -> str:
        if source.bits <= 8:
            return self.from_small(value, source, lanes)
        return self._from_f16(value, lanes) if source == F16 else self._from_bf16(value, lanes)

    def _from_single(self, value: str, target: DType, lanes: int) -> str:
        if target.bits <= 8:
            return self.to_small(value, target, lanes)
        return self._to_f16(value, lanes) if target == F16 else self._to_bf16(value, lanes)

    def _from_bf16(self, value: str, lanes: int) -> str:
        """A bf16 is the upper half of an f32."""
        wide = self._convert("zext", value, S16, S32, lanes)
        high = self._int("shl", wide, 16, lanes)
        return self._bits("float", high, lanes)

    def _to_bf16(self, value: str, lanes: int) -> str:
        """Round to nearest even by adding to the dropped half; a NaN keeps its upper half, made quiet."""
        bits = self._bits("i32", value, lanes)
        high = self._int("lshr", bits, 16, lanes)
        odd = self._int("and", high, 1, lanes)
        carry = self._int("add", odd, 0x7FFF, lanes)
        sum_ = self._pure(f"add {type_of(S32, lanes)} {bits}, {carry}", lanes, bits, carry)
        rounded = self._int("lshr", sum_, 16, lanes)
        quiet = self._int("or", high, 0x40, lanes)
        nan = self._compare("fcmp uno", type_of(F32, lanes), value, value, lanes)
        return self._convert("trunc", self._choose(nan, quiet, rounded, lanes), S32, BF16, lanes)

    def _from_f16(self, value: str, lanes: int) -> str:
        if self._can.half_conversion:
            half = vector_of("half", lanes)
            pattern = self._pure(f"bitcast {type_of(F16, lanes)} {value} to {half}", lanes, value)
            return self._pure(f"fpext {half} {pattern} to {type_of(F32, lanes)}", lanes, pattern)
        return self._from_f16_by_integers(value, lanes)

    def _from_f16_by_integers(self, value: str, lanes: int) -> str:
        """A shift puts exponent and fraction in place; a multiplication by 2**112 corrects the exponent.

        That also makes denormals right. Infinity and NaN get their exponent by a second correction.
        """
        wide = self._convert("zext", value, S16, S32, lanes)
        magnitude = self._int("shl", self._int("and", wide, 0x7FFF, lanes), 13, lanes)
        sign = self._int("shl", self._int("and", wide, 0x8000, lanes), 16, lanes)
        single = self._bits("float", magnitude, lanes)
        scale = constant(2.0**112, F32, lanes)
        scaled = self._pure(f"fmul {type_of(F32, lanes)} {single}, {scale}", lanes, single)
        finite = self._bits("i32", scaled, lanes)
        special = self._int("or", magnitude, 0x7F800000, lanes)
        infinite = constant(0x7C00 << 13, S32, lanes)
        is_special = self._compare("icmp uge", type_of(S32, lanes), magnitude, infinite, lanes)
        chosen = self._choose(is_special, special, finite, lanes)
        both = self._pure(f"or {type_of(S32, lanes)} {chosen}, {sign}", lanes, chosen, sign)
        return self._bits("float", both, lanes)

    def _to_f16(self, value: str, lanes: int) -> str:
        if self._can.half_conversion:
            half = vector_of("half", lanes)
            if lanes == 1:
                # LLVM narrows the operands of a copysign before it, and calls a library for the sign of an f64.
                kind = type_of(F32, lanes)
                value = self._stream.intrinsic(
                    "llvm.arithmetic.fence.f32", kind, (kind, value), movable=True
                )
            rounded = self._pure(f"fptrunc {type_of(F32, lanes)} {value} to {half}", lanes, value)
            return self._pure(f"bitcast {half} {rounded} to {type_of(F16, lanes)}", lanes, rounded)
        return self._to_f16_by_integers(value, lanes)

    def _to_f16_by_integers(self, value: str, lanes: int) -> str:
        """Normal results round by an integer addition, denormal ones by the addition of 0.5; NaN becomes quiet."""
        i32 = type_of(S32, lanes)
        bits = self._bits("i32", value, lanes)
        magnitude = self._int("and", bits, 0x7FFFFFFF, lanes)
        sign = self._int("and", self._int("lshr", bits, 16, lanes), 0x8000, lanes)
        odd = self._int("and", self._int("lshr", magnitude, 13, lanes), 1, lanes)
        rebased = self._int("add", magnitude, 0xFFF - (112 << 23), lanes)
        sum_ = self._pure(f"add {i32} {rebased}, {odd}", lanes, rebased, odd)
        normal = self._int("lshr", sum_, 13, lanes)
        # One unit of 0.5 in f32 is 2**-24, the smallest denormal of f16: the hardware rounds there.
        single = self._bits("float", magnitude, lanes)
        half = constant(0.5, F32, lanes)
        shifted = self._pure(f"fadd {type_of(F32, lanes)} {single}, {half}", lanes, single)
        denormal = self._int("sub", self._bits("i32", shifted, lanes), 0x3F000000, lanes)
        small = self._below(magnitude, 113 << 23, lanes)
        result = self._choose(small, denormal, normal, lanes)
        fits = self._below(magnitude, 0x477FF000, lanes)
        result = self._choose(fits, result, constant(0x7C00, S32, lanes), lanes)
        quiet = self._int(
            "or",
            self._int("and", self._int("lshr", magnitude, 13, lanes), 0x3FF, lanes),
            0x7E00,
            lanes,
        )
        no_nan = self._below(magnitude, 0x7F800001, lanes)
        result = self._choose(no_nan, result, quiet, lanes)
        both = self._pure(f"or {i32} {result}, {sign}", lanes, result, sign)
        return self._convert("trunc", both, S32, F16, lanes)


def _instruction(source: DType, target: DType) -> str:
    """The LLVM conversion; "" where the bits do not change."""
    if source.is_float:
        return "fpext" if target == F64 else "fptrunc"
    if target.is_float:
        return "sitofp" if source.is_signed else "uitofp"
    if source.bits == target.bits:
        return ""
    if source.bits > target.bits:
        return "trunc"
    return "sext" if source.is_signed else "zext"
