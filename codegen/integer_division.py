"""Floor division, remainder and shifts of integers, defined for all operands, unlike LLVM's."""

from __future__ import annotations

from ..base.dtypes import BOOL, F64, DType
from .instruction_stream import InstructionStream
from .llvm_types import constant, type_of


class IntegerDivision:
    """Emits `div`, `mod`, `shl` and `shr` of integers into one function."""

    def __init__(self, stream: InstructionStream) -> None:
        self._stream = stream

    def divide(
        self,
        op: str,
        left: str,
        right: str,
        dtype: DType,
        lanes: int,
        divisor: int | None = None,
        natural: bool = False,
    ) -> str:
        """`div` (towards minus infinity; x / 0 is 0, MIN / -1 is MIN) or `mod` (of the divisor's sign; x % 0 is 0).

        `divisor` is the value of `right` where it is a literal; `natural`: left is known to be >= 0.
        """
        if divisor is not None and divisor > 0:
            return self._by_literal(op, left, divisor, dtype, lanes, natural)
        if not dtype.is_signed:
            return self._unsigned(op, left, right, dtype, lanes)
        return self._signed(op, left, right, dtype, lanes)

    def shift(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        """`shl` or `shr`; the bit width or more (a negative amount counts as huge) gives 0, or the sign."""
        zero, last = (constant(n, dtype, lanes) for n in (0, dtype.bits - 1))
        fits = self._compare("ult", right, constant(dtype.bits, dtype, lanes), dtype, lanes)
        if op == "shr" and dtype.is_signed:
            amount = self._choose(fits, right, last, dtype, lanes)
            return self._op("ashr", left, amount, dtype, lanes)
        amount = self._choose(fits, right, zero, dtype, lanes)
        shifted = self._op("shl" if op == "shl" else "lshr", left, amount, dtype, lanes)
        return self._choose(fits, shifted, zero, dtype, lanes)

    def shift_by_literal(self, op: str, left: str, amount: int, dtype: DType, lanes: int) -> str:
        """The same where the amount is a literal."""
        signed = op == "shr" and dtype.is_signed
        if not 0 <= amount < dtype.bits:
            if not signed:
                return constant(0, dtype, lanes)
            amount = dtype.bits - 1
        name = "shl" if op == "shl" else "ashr" if signed else "lshr"
        return self._op(name, left, constant(amount, dtype, lanes), dtype, lanes)

    def _by_literal(
        self, op: str, left: str, divisor: int, dtype: DType, lanes: int, natural: bool
    ) -> str:
        right = constant(divisor, dtype, lanes)
        if divisor & divisor - 1 == 0:
            # Shift and mask already round towards minus infinity.
            if op == "mod":
                return self._op("and", left, constant(divisor - 1, dtype, lanes), dtype, lanes)
            return self.shift_by_literal("shr", left, divisor.bit_length() - 1, dtype, lanes)
        if natural or not dtype.is_signed:
            return self._op("udiv" if op == "div" else "urem", left, right, dtype, lanes)
        return self._floor_by_literal(op, left, right, dtype, lanes)

    def _floor_by_literal(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        """The floor of x / d, for x < 0 as not(not(x) / d): LLVM multiplies unsigned numbers by an inverse."""
        sign = self.shift_by_literal("shr", left, dtype.bits - 1, dtype, lanes)
        natural = self._op("xor", left, sign, dtype, lanes)
        quotient = self._op("udiv", natural, right, dtype, lanes)
        floor = self._op("xor", quotient, sign, dtype, lanes)
        if op == "div":
            return floor
        return self._op("sub", left, self._op("mul", floor, right, dtype, lanes), dtype, lanes)

    def _unsigned(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        zero, one = (constant(n, dtype, lanes) for n in (0, 1))
        is_zero = self._compare("eq", right, zero, dtype, lanes)
        safe = self._choose(is_zero, one, right, dtype, lanes)
        result = self._op("udiv" if op == "div" else "urem", left, safe, dtype, lanes)
        # x % 1 is the 0 that x % 0 should be.
        return result if op == "mod" else self._choose(is_zero, zero, result, dtype, lanes)

    def _signed(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        """Divide by 1 instead of 0 and -1, which trap, and select their results afterwards."""
        zero, one, minus_one = (constant(n, dtype, lanes) for n in (0, 1, -1))
        is_zero = self._compare("eq", right, zero, dtype, lanes)
        is_minus_one = self._compare("eq", right, minus_one, dtype, lanes)
        either = self._op("or", is_zero, is_minus_one, BOOL, lanes)
        safe = self._choose(either, one, right, dtype, lanes)
        result = self._floor(op, left, safe, dtype, lanes)
        if op == "mod":
            return result
        negated = self._op("sub", zero, left, dtype, lanes)
        result = self._choose(is_minus_one, negated, result, dtype, lanes)
        return self._choose(is_zero, zero, result, dtype, lanes)

    def _floor(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        """Adjust the truncated quotient: subtract 1 where the remainder's sign differs from the divisor's."""
        zero = constant(0, dtype, lanes)
        quotient = self._truncated(left, right, dtype, lanes)
        multiple = self._op("mul", quotient, right, dtype, lanes)
        rest = self._op("sub", left, multiple, dtype, lanes)
        inexact = self._compare("ne", rest, zero, dtype, lanes)
        signs = self._op("xor", rest, right, dtype, lanes)
        differ = self._compare("slt", signs, zero, dtype, lanes)
        adjust = self._op("and", inexact, differ, BOOL, lanes)
        if op == "mod":
            return self._choose(
                adjust, self._op("add", rest, right, dtype, lanes), rest, dtype, lanes
            )
        minus_one = constant(-1, dtype, lanes)
        lower = self._op("add", quotient, minus_one, dtype, lanes)
        return self._choose(adjust, lower, quotient, dtype, lanes)

    def _truncated(self, left: str, right: str, dtype: DType, lanes: int) -> str:
        """The quotient towards zero. Vectors of up to 32 bits are divided as f64, for which there are instructions.

        The f64 quotient q of a and b, unless it is exact, is more than 2**-33 |q| from the next integer, and was
        rounded by less than 2**-52 |q|: both lie between the same integers.
        """
        if lanes == 1 or dtype.bits > 32:
            return self._op("sdiv", left, right, dtype, lanes)
        kind, wide = type_of(dtype, lanes), type_of(F64, lanes)
        a, b = (self._stream.pure(f"sitofp {kind} {x} to {wide}", lanes, x) for x in (left, right))
        exact = self._op("fdiv", a, b, F64, lanes)
        return self._stream.pure(f"fptosi {wide} {exact} to {kind}", lanes, exact)

    def _op(self, name: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        text = f"{name} {type_of(dtype, lanes)} {left}, {right}"
        return self._stream.pure(text, lanes, left, right)

    def _compare(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        return self._op(f"icmp {op}", left, right, dtype, lanes)

    def _choose(self, condition: str, then: str, other: str, dtype: DType, lanes: int) -> str:
        kind = type_of(dtype, lanes)
        text = f"select {type_of(BOOL, lanes)} {condition}, {kind} {then}, {kind} {other}"
        return self._stream.pure(text, lanes, condition, then, other)
