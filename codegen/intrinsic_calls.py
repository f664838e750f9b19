"""The intrinsics a `Call` may name: fused multiply-add, horizontal reductions, vector math."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..base.dtypes import BOOL, F32, F64, S32, DType
from ..base.errors import InternalError
from .capabilities import Capabilities
from .casts import Casts
from .instruction_stream import InstructionStream
from .llvm_types import element_type, lane_numbers, mangled, type_of
from .operators import Operators
from .vector_ops import LlvmVectorOps

_REDUCE = "reduce_"


class IntrinsicCalls:
    """Emits intrinsics into one function. 16-bit floats never come here, except for `reduce_` of one lane."""

    def __init__(
        self, stream: InstructionStream, can: Capabilities, casts: Casts, operators: Operators
    ) -> None:
        self._stream = stream
        self._can = can
        self._casts = casts
        self._operators = operators

    def call(self, name: str, args: Sequence[str], dtype: DType, lanes: int) -> str:
        """The intrinsic on `args` of `dtype` and `lanes`."""
        if name.startswith(_REDUCE):
            return self._reduce(name.removeprefix(_REDUCE), args[0], dtype, lanes)
        if not dtype.is_float:
            raise InternalError(f"intrinsic '{name}' takes floats, got {dtype}")
        if name == "fma":
            return self._fma(args, dtype, lanes)
        if name == "pick":
            return self._pick(args[0], args[1], lanes)
        from .math import MATH, MATH_F64  # many files that most models do without

        if dtype == F32 and name in MATH:
            return self._vector_math(MATH[name], args, lanes)
        if name not in MATH_F64:
            raise InternalError(f"intrinsic '{name}' is not defined for {dtype}")
        wide = [self._casts.cast(arg, dtype, F64, lanes) for arg in args] if dtype == F32 else args
        result = str(MATH_F64[name](self._vector_ops(lanes).wide, *wide))
        return self._casts.cast(result, F64, F32, lanes) if dtype == F32 else result

    def _pick(self, table: str, index: str, lanes: int) -> str:
        """Lanes of a table, by the lowest bits of each index: one instruction where vectors have them."""
        kind, indices = type_of(F32, lanes), type_of(S32, lanes)
        if lanes in self._can.picks:
            name = self._can.picks[lanes]
            return self._stream.intrinsic(name, kind, (kind, table), (indices, index))
        result = "poison"
        for lane in range(lanes):
            at = self._stream.value(f"extractelement {indices} {index}, i64 {lane}")
            low = self._stream.value(f"urem i32 {at}, {lanes}")
            one = self._stream.value(f"extractelement {kind} {table}, i32 {low}")
            result = self._stream.value(f"insertelement {kind} {result}, float {one}, i64 {lane}")
        return result

    def _fma(self, args: Sequence[str], dtype: DType, lanes: int) -> str:
        """a * b + c in one instruction; f32 in f64 where there is none.

        The multiplication of two f32 is exact in f64; the sum is rounded to 53 bits and then to 24, which differs from
        rounding once in the last place in about one case in 2**28.
        """
        if dtype == F64 or self._can.fma:
            kind = type_of(dtype, lanes)
            operands = [(kind, arg) for arg in args]
            return self._stream.intrinsic(
                f"llvm.fma.{mangled(dtype, lanes)}", kind, *operands, movable=lanes == 1
            )
        a, b, c = (self._casts.cast(arg, F32, F64, lanes) for arg in args)
        scaled = self._operators.binary("mul", a, b, F64, lanes)
        total = self._operators.binary("add", scaled, c, F64, lanes)
        return self._casts.cast(total, F64, F32, lanes)

    def _vector_math(self, function: Callable[..., object], args: Sequence[str], lanes: int) -> str:
        return str(function(self._vector_ops(lanes), *args))

    def _vector_ops(self, lanes: int) -> LlvmVectorOps:
        return LlvmVectorOps(
            self._stream.emit,
            self._stream.fresh_here,
            lanes,
            self._can.fma,
            declares=self._stream.declares,
            scalef=self._can.scalef,
            begin=self._stream.begin_part,
        )

    def _reduce(self, op: str, value: str, dtype: DType, lanes: int) -> str:
        """Reduce all lanes to one. Integers in any order; floats by halving: the shape fixes the order."""
        if lanes == 1:
            return value
        if dtype.is_float:
            return self._tree(op, value, dtype, lanes)
        if dtype == BOOL:
            op = {"min": "and", "max": "or"}.get(op, op)
        elif op in ("min", "max"):
            op = f"{'s' if dtype.is_signed else 'u'}{op}"
        return self._stream.intrinsic(
            f"llvm.vector.reduce.{op}.{mangled(dtype, lanes)}",
            element_type(dtype),
            (type_of(dtype, lanes), value),
        )

    def _tree(self, op: str, value: str, dtype: DType, lanes: int) -> str:
        if lanes == 1:
            return value
        half = 1 << (lanes - 1).bit_length() - 1
        if 2 * half != lanes:
            low = self._tree(op, self._part(value, dtype, lanes, 0, half), dtype, half)
            rest = lanes - half
            high = self._tree(op, self._part(value, dtype, lanes, half, rest), dtype, rest)
            return self._operators.binary(op, low, high, dtype, 1)
        low, high = (self._part(value, dtype, lanes, at, half) for at in (0, half))
        return self._tree(op, self._operators.binary(op, low, high, dtype, half), dtype, half)

    def _part(self, value: str, dtype: DType, lanes: int, offset: int, size: int) -> str:
        vector = type_of(dtype, lanes)
        if size == 1:
            return self._stream.value(f"extractelement {vector} {value}, i64 {offset}")
        numbers = lane_numbers(list(range(offset, offset + size)))
        return self._stream.value(f"shufflevector {vector} {value}, {vector} poison, {numbers}")
