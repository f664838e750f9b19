"""Unary, binary and comparison operators on values of one type, as `nodes` defines them."""

from __future__ import annotations

from ..base.dtypes import BOOL, DType
from ..base.errors import InternalError
from .capabilities import Capabilities
from .instruction_stream import InstructionStream
from .llvm_types import constant, mangled, type_of

_BITWISE = ("and", "or", "xor")
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_FLOAT_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "round_even": "roundeven"}
_BOOL_ORDER = {"min": "and", "max": "or"}


class Operators:
    """Emits operators into one function. A 16-bit float never comes here: it is computed with as f32."""

    def __init__(self, stream: InstructionStream, can: Capabilities) -> None:
        self._stream = stream
        self._can = can

    def unary(self, op: str, value: str, dtype: DType, lanes: int) -> str:
        """`op` of `UNARY_OPS`."""
        kind = type_of(dtype, lanes)
        if op == "neg":
            text = (
                f"fneg {kind} {value}"
                if dtype.is_float
                else f"sub {kind} {_zero(dtype, lanes)}, {value}"
            )
            return self._pure(text, lanes, value)
        if op == "not":
            ones = constant(True, BOOL, lanes) if dtype == BOOL else _ones(dtype, lanes)
            return self._pure(f"xor {kind} {value}, {ones}", lanes, value)
        if op == "abs":
            return self._absolute(value, dtype, lanes)
        if op == "sqrt":
            return self._intrinsic("sqrt", dtype, lanes, value)
        if not dtype.is_float:
            raise InternalError(f"operator '{op}' takes floats, got {dtype}")
        if self._can.rounding:
            return self._intrinsic(_FLOAT_ROUNDING[op], dtype, lanes, value)
        return self._round_by_addition(op, value, dtype, lanes)

    def binary(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        """`op` of `BINARY_OPS`, without the divisions and shifts of integers."""
        kind = type_of(dtype, lanes)
        if op in ("min", "max"):
            return self._extreme(op, left, right, dtype, lanes)
        if op == "larger":
            return self.extreme_of_ordered("max", right, left, dtype, lanes)
        if op in _BITWISE or dtype == BOOL:
            if op not in _BITWISE:
                raise InternalError(f"operator '{op}' is not defined for {dtype}")
            name = op
        else:
            name = f"f{op}" if dtype.is_float else op
            if name == "fmod":
                raise InternalError("operator 'mod' is not defined for floats: call 'fmod'")
        return self._pure(f"{name} {kind} {left}, {right}", lanes, left, right)

    def compare(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        """`op` of `COMPARE_OPS` on operands of `dtype`."""
        if dtype.is_float:
            name = f"fcmp {_FLOAT_COMPARE[op]}"
        elif op in ("eq", "ne"):
            name = f"icmp {op}"
        else:
            name = f"icmp {'s' if dtype.is_signed else 'u'}{op}"
        return self._pure(f"{name} {type_of(dtype, lanes)} {left}, {right}", lanes, left, right)

    def select(self, condition: str, then: str, otherwise: str, dtype: DType, lanes: int) -> str:
        """`then` in the lanes where `condition` is set, else `otherwise`."""
        kind = type_of(dtype, lanes)
        text = f"select {type_of(BOOL, lanes)} {condition}, {kind} {then}, {kind} {otherwise}"
        return self._pure(text, lanes, condition, then, otherwise)

    def extreme_of_ordered(self, op: str, safe: str, value: str, dtype: DType, lanes: int) -> str:
        """Float `min` or `max` where `safe` is not NaN: one instruction, which returns its second operand on NaN."""
        better = self.compare("lt" if op == "min" else "gt", safe, value, dtype, lanes)
        return self.select(better, safe, value, dtype, lanes)

    def _extreme(self, op: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        if dtype == BOOL:
            return self.binary(_BOOL_ORDER[op], left, right, dtype, lanes)
        if not dtype.is_float:
            name = f"{'s' if dtype.is_signed else 'u'}{op}"
            return self._intrinsic(name, dtype, lanes, left, right)
        # The instruction returns its second operand if either is NaN, so only the first one must be tested for NaN.
        # Swapped so that this is the right operand: the left one is the accumulator of a reduction, and a test would
        # lengthen its dependency chain.
        chosen = self.extreme_of_ordered(op, right, left, dtype, lanes)
        kind = type_of(dtype, lanes)
        nan = self._pure(f"fcmp uno {kind} {right}, {right}", lanes, right)
        return self.select(nan, right, chosen, dtype, lanes)

    def _absolute(self, value: str, dtype: DType, lanes: int) -> str:
        if dtype.is_float:
            return self._intrinsic("fabs", dtype, lanes, value)
        if not dtype.is_signed:
            return value
        kind = type_of(dtype, lanes)
        return self._stream.intrinsic(
            f"llvm.abs.{mangled(dtype, lanes)}",
            kind,
            (kind, value),
            ("i1", "false"),
            movable=lanes == 1,
        )

    def _round_by_addition(self, op: str, value: str, dtype: DType, lanes: int) -> str:
        """Adding and subtracting 2**23 (2**52) rounds the magnitude; the others correct that by one.

        Larger magnitudes, infinity and NaN are returned as they are, and the sign of zero is kept.
        """
        magic = constant(2.0 ** (23 if dtype.bits == 32 else 52), dtype, lanes)
        size = self.unary("abs", value, dtype, lanes)
        near = self._float(
            "fsub", self._float("fadd", size, magic, dtype, lanes), magic, dtype, lanes
        )
        signed = near if op == "trunc" else self._with_sign(near, value, dtype, lanes)
        one, none = constant(1.0, dtype, lanes), constant(0.0, dtype, lanes)
        if op != "round_even":
            reference = size if op == "trunc" else value
            beyond = self.compare("lt" if op == "ceil" else "gt", signed, reference, dtype, lanes)
            step = self.select(beyond, one, none, dtype, lanes)
            name = "fadd" if op == "ceil" else "fsub"
            signed = self._with_sign(
                self._float(name, signed, step, dtype, lanes), value, dtype, lanes
            )
        small = self.compare("lt", size, magic, dtype, lanes)
        return self.select(small, signed, value, dtype, lanes)

    def _with_sign(self, value: str, sign: str, dtype: DType, lanes: int) -> str:
        return self._intrinsic("copysign", dtype, lanes, value, sign)

    def _float(self, name: str, left: str, right: str, dtype: DType, lanes: int) -> str:
        return self._pure(f"{name} {type_of(dtype, lanes)} {left}, {right}", lanes, left, right)

    def _intrinsic(self, name: str, dtype: DType, lanes: int, *values: str) -> str:
        kind = type_of(dtype, lanes)
        args = [(kind, value) for value in values]
        return self._stream.intrinsic(
            f"llvm.{name}.{mangled(dtype, lanes)}", kind, *args, movable=lanes == 1
        )

    def _pure(self, instruction: str, lanes: int, *operands: str) -> str:
        return self._stream.pure(instruction, lanes, *operands)


def _zero(dtype: DType, lanes: int) -> str:
    return constant(0, dtype, lanes)


def _ones(dtype: DType, lanes: int) -> str:
    return constant(-1 if dtype.is_signed else (1 << dtype.bits) - 1, dtype, lanes)
