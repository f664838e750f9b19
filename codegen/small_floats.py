"""Conversion between f32 and floats of 8 bits or less, for any `FloatLayout`, as ml_dtypes does it.

To f32: a shift puts exponent and fraction in place, and a multiplication by a power of two corrects the exponent, which
also makes denormals right. From f32: normal results round by an integer addition, denormal ones by the addition of a
power of two whose last place is the smallest denormal.
"""

from __future__ import annotations

from ..base.dtypes import F32, S32, U8, DType, FloatLayout
from .lane_bits import LaneBits
from .llvm_types import constant, type_of

_DIGITS, _BIAS, _INFINITY, _NAN = 23, 127, 0x7F800000, 0x7FC00000  # of f32


class SmallFloats(LaneBits):
    """Emits these conversions into one function."""

    def from_small(self, value: str, source: DType, lanes: int) -> str:
        """Bytes of type `source` as f32, exact."""
        wide = self._convert("zext", value, U8, S32, lanes)
        layout = source.layout
        if layout is None:
            return self._from_exponent(wide, lanes)
        code = self._int("and", wide, layout.sign - 1, lanes)
        shifted = self._int("shl", code, _DIGITS - layout.fraction, lanes)
        scale = constant(2.0 ** (_BIAS - layout.bias), F32, lanes)
        single = self._bits("float", shifted, lanes)
        scaled = self._pure(f"fmul {type_of(F32, lanes)} {single}, {scale}", lanes, single)
        sign = self._int("and", wide, layout.sign, lanes)
        sign_bit = self._int("shl", sign, 31 - layout.exponent - layout.fraction, lanes)
        bits = self._both("or", self._bits("i32", scaled, lanes), sign_bit, lanes)
        return self._bits("float", self._with_specials(bits, wide, code, layout, lanes), lanes)

    def _with_specials(
        self, bits: str, wide: str, code: str, layout: FloatLayout, lanes: int
    ) -> str:
        if layout.specials == "finite":
            return bits
        if layout.specials == "fnuz":
            nan = constant(_NAN - (1 << 31), S32, lanes)
            pattern = self._int("and", wide, 2 * layout.sign - 1, lanes)
            is_number = self._int("xor", pattern, layout.sign, lanes)
            zero = constant(0, S32, lanes)
            is_nan = self._compare("icmp eq", type_of(S32, lanes), is_number, zero, lanes)
            return self._choose(is_nan, nan, bits, lanes)
        finite = self._below(code, layout.largest + 1, lanes)
        sign = self._int("and", bits, 1 << 31, lanes)
        if layout.specials == "fn":
            special = self._int("or", sign, _NAN, lanes)
        else:  # the fraction tells infinity from NaN
            fraction = self._int("shl", code, _DIGITS - layout.fraction, lanes)
            infinite = self._int("or", fraction, _INFINITY, lanes)
            special = self._both("or", sign, infinite, lanes)
        return self._choose(finite, bits, special, lanes)

    def _from_exponent(self, wide: str, lanes: int) -> str:
        """2 to the power of wide - 127: 0 is denormal in f32, 255 is NaN."""
        bits = self._int("shl", wide, _DIGITS, lanes)
        is_least = self._below(wide, 1, lanes)
        bits = self._choose(is_least, constant(1 << _DIGITS - 1, S32, lanes), bits, lanes)
        is_number = self._below(wide, 255, lanes)
        return self._bits(
            "float", self._choose(is_number, bits, constant(_NAN, S32, lanes), lanes), lanes
        )

    def to_small(self, value: str, target: DType, lanes: int) -> str:
        """f32 as bytes of type `target`: the nearest number, ties to even."""
        bits = self._bits("i32", value, lanes)
        magnitude = self._int("and", bits, 0x7FFFFFFF, lanes)
        layout = target.layout
        if layout is None:
            result = self._to_exponent(bits, magnitude, lanes)
        else:
            result = self._rounded(magnitude, layout, lanes)
            result = self._out_of_range(result, magnitude, layout, lanes)
            highest = self._int("lshr", bits, 31 - layout.exponent - layout.fraction, lanes)
            sign = self._int("and", highest, layout.sign, lanes)
            if layout.specials == "fnuz":  # neither zero nor NaN has a sign
                below = self._int("sub", result, 1, lanes)
                is_number = self._below(below, layout.largest, lanes)
                sign = self._choose(is_number, sign, constant(0, S32, lanes), lanes)
            result = self._both("xor", result, sign, lanes)
        return self._convert("trunc", result, S32, U8, lanes)

    def _rounded(self, magnitude: str, layout: FloatLayout, lanes: int) -> str:
        """The pattern of a magnitude, as if there were no largest number."""
        dropped = _DIGITS - layout.fraction
        odd = self._int("and", self._int("lshr", magnitude, dropped, lanes), 1, lanes)
        rebase = (_BIAS - layout.bias) << _DIGITS
        below = (1 << dropped - 1) - 1
        rebased = self._int("add", magnitude, below - rebase, lanes)
        normal = self._int("lshr", self._both("add", rebased, odd, lanes), dropped, lanes)
        ulp = 2.0 ** (1 - layout.bias - layout.fraction + _DIGITS)
        single, shift = self._bits("float", magnitude, lanes), constant(ulp, F32, lanes)
        shifted = self._pure(f"fadd {type_of(F32, lanes)} {single}, {shift}", lanes, single)
        exponent = _BIAS + 1 - layout.bias - layout.fraction + _DIGITS
        denormal = self._int("sub", self._bits("i32", shifted, lanes), exponent << _DIGITS, lanes)
        is_denormal = self._below(magnitude, rebase + (1 << _DIGITS), lanes)
        return self._choose(is_denormal, denormal, normal, lanes)

    def _out_of_range(self, result: str, magnitude: str, layout: FloatLayout, lanes: int) -> str:
        """Beyond the largest number: infinity, else NaN, else the largest number; NaN as ml_dtypes has it."""
        infinite = layout.largest + 1
        nan = infinite | 1 << layout.fraction - 1 if layout.specials == "ieee" else infinite
        beyond = layout.largest if layout.specials == "finite" else infinite
        fits = self._below(result, layout.largest + 1, lanes)
        result = self._choose(fits, result, constant(beyond, S32, lanes), lanes)
        is_number = self._below(magnitude, _INFINITY + 1, lanes)
        return self._choose(is_number, result, constant(nan, S32, lanes), lanes)

    def _to_exponent(self, bits: str, magnitude: str, lanes: int) -> str:
        """The exponent alone, halfway up; zero, negative numbers, infinity and NaN are NaN."""
        is_denormal = self._below(magnitude, 1 << _DIGITS, lanes)
        half = 1 << _DIGITS - 1
        add = self._choose(
            is_denormal, constant(half - 1, S32, lanes), constant(half, S32, lanes), lanes
        )
        result = self._int("lshr", self._both("add", magnitude, add, lanes), _DIGITS, lanes)
        is_number = self._below(self._int("sub", bits, 1, lanes), _INFINITY - 1, lanes)
        return self._choose(is_number, result, constant(255, S32, lanes), lanes)
