"""Floats to integers of 8 or 16 bits: rounded, shifted by a zero point, saturated.

vcvtps2dq               rounds ties to even; NaN and what is beyond s32 become its smallest number, so that only
                        numbers above need a bound before
vpackssdw, vpackuswb    without masks: two vectors become one of half the width, saturated, so that bytes of two or
                        four vectors cost less than those of one
vpmovusdb, vpmovsdb     with masks: one vector at once
"""

from __future__ import annotations

from ..base.dtypes import F32, S16, S32, DType
from .capabilities import Capabilities
from .instruction_stream import InstructionStream
from .llvm_types import constant, lane_numbers, mangled, type_of

_FAR = 1 << 30
"""Beyond all results; a sum with a zero point still fits s32."""
_SHORT = 1 << 14
"""Zero points of bytes below it may be added to saturated 16-bit integers."""


class Quantization:
    """Emits `quantize` into one function."""

    def __init__(self, stream: InstructionStream, can: Capabilities) -> None:
        self._stream = stream
        self._can = can

    def quantize(self, x: str, zero: int, dtype: DType, lanes: int) -> str:
        """round(x) + zero as the nearest number of `dtype`; the smallest for NaN, and from 2^31 on."""
        whole = self._nearest(x, lanes)
        if not zero:
            return self._saturated(whole, S32, dtype, lanes)
        if dtype.bits == 8 and abs(zero) < _SHORT and 16 not in self._can.nearest:
            short = self._saturated(whole, S32, S16, lanes)
            short = self._binary("sadd.sat", short, zero, S16, lanes)
            return self._saturated(short, S16, dtype, lanes)
        if zero < 0:
            whole = self._binary("smax", whole, -_FAR, S32, lanes)
        kind = type_of(S32, lanes)
        moved = self._stream.value(f"add {kind} {whole}, {constant(zero, S32, lanes)}")
        return self._saturated(moved, S32, dtype, lanes)

    def _nearest(self, x: str, lanes: int) -> str:
        """Round to s32, one vector at a time."""
        whole = max(4, 1 << (lanes - 1).bit_length())
        if lanes < whole:
            wide = self._nearest(self._widened(x, lanes, whole), whole)
            return self._part(wide, S32, whole, 0, lanes)
        if not self._can.nearest:
            return self._nearest_in_parts(x, lanes)
        size = max(n for n in self._can.nearest if n <= lanes)
        if lanes == size:
            return self._nearest_vector(x, size)
        parts = [
            self._nearest_vector(self._part(x, F32, lanes, at, size), size)
            for at in range(0, lanes, size)
        ]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self._joined(low, high, lanes // len(parts)) for low, high in pairs]
        return parts[0]

    def _nearest_in_parts(self, x: str, lanes: int) -> str:
        """Round and convert to s32 without an instruction for it; NaN and 2^31 become the smallest number."""
        source, result = type_of(F32, lanes), type_of(S32, lanes)
        whole = self._stream.intrinsic(f"llvm.roundeven.{mangled(F32, lanes)}", source, (source, x))
        inside = self._stream.value(f"fcmp olt {source} {x}, {constant(2.0**31, F32, lanes)}")
        name = f"llvm.fptosi.sat.{mangled(S32, lanes)}.{mangled(F32, lanes)}"
        converted = self._stream.intrinsic(name, result, (source, whole))
        smallest = constant(-(1 << 31), S32, lanes)
        mask = "i1" if lanes == 1 else f"<{lanes} x i1>"
        return self._stream.value(
            f"select {mask} {inside}, {result} {converted}, {result} {smallest}"
        )

    def _nearest_vector(self, x: str, size: int) -> str:
        source, result = type_of(F32, size), type_of(S32, size)
        name = self._can.nearest[size]
        if size < 16:
            return self._stream.intrinsic(name, result, (source, x))
        rest = (result, "zeroinitializer"), ("i16", "-1"), ("i32", "4")  # the mode that is set
        return self._stream.intrinsic(name, result, (source, x), *rest)

    def _saturated(self, value: str, source: DType, target: DType, lanes: int) -> str:
        """The nearest number of `target`: what LLVM makes saturating instructions of."""
        low, high = target.limits
        inside = self._binary("smin", value, high, source, lanes)
        inside = self._binary("smax", inside, low, source, lanes)
        kinds = type_of(source, lanes), type_of(target, lanes)
        return self._stream.value(f"trunc {kinds[0]} {inside} to {kinds[1]}")

    def _binary(self, name: str, value: str, number: int, dtype: DType, lanes: int) -> str:
        kind = type_of(dtype, lanes)
        operands = (kind, value), (kind, constant(number, dtype, lanes))
        return self._stream.intrinsic(f"llvm.{name}.{mangled(dtype, lanes)}", kind, *operands)

    def _widened(self, x: str, lanes: int, size: int) -> str:
        kind = type_of(F32, size)
        if lanes == 1:
            return self._stream.value(f"insertelement {kind} zeroinitializer, float {x}, i64 0")
        numbers = lane_numbers([lane if lane < lanes else -1 for lane in range(size)])
        source = type_of(F32, lanes)
        return self._stream.value(f"shufflevector {source} {x}, {source} poison, {numbers}")

    def _part(self, value: str, dtype: DType, lanes: int, offset: int, size: int) -> str:
        kind = type_of(dtype, lanes)
        if size == 1:
            return self._stream.value(f"extractelement {kind} {value}, i64 {offset}")
        numbers = lane_numbers(list(range(offset, offset + size)))
        return self._stream.value(f"shufflevector {kind} {value}, {kind} poison, {numbers}")

    def _joined(self, low: str, high: str, lanes: int) -> str:
        kind = type_of(S32, lanes)
        numbers = lane_numbers(list(range(2 * lanes)))
        return self._stream.value(f"shufflevector {kind} {low}, {kind} {high}, {numbers}")
