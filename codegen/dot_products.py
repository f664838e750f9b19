"""Dot products of neighboring lanes: one emitter per kind of instruction, all exact.

    vpdpbusd, vpdpbf16ps    where VNNI and BF16 are
    sdot, usdot             on Arm, where its dot products and 8-bit matmuls are
    vpmaddwd                on operands widened to 16 bits: sums of two terms fit s32, so that nothing saturates
    vcvtph2ps               on pairs of f16, which are multiplied apart
    vpmaddubsw              on bytes, where the sum of two terms is requested in 16 bits, at which their sum saturates
    plain multiplications   on any other target

Even and odd lanes are separated by shifts within a 32-bit lane, not by shuffles, so terms are already in the lane of
their accumulator.
"""

from __future__ import annotations

from ..base.dtypes import BF16, F16, F32, S8, S16, S32, U8, DType
from .capabilities import Capabilities
from .casts import Casts
from .instruction_stream import InstructionStream
from .llvm_types import constant, mangled, splat, type_of, vector_of

DOT_PRODUCTS = ("dot2", "dot4")


class DotProducts:
    """Emits `dot2` and `dot4` into one function; operands are vectors as Tensor IR has them."""

    def __init__(self, stream: InstructionStream, can: Capabilities, casts: Casts) -> None:
        self._stream = stream
        self._can = can
        self._casts = casts

    def dot(self, name: str, acc: str, a: str, b: str, dtype: DType, lanes: int) -> str:
        """Return acc + the dot products of the lanes of a (of `dtype`) and b that belong to each of its `lanes`."""
        if name == "dot4":
            return self._dot_bytes(acc, a, b, dtype, lanes)
        if dtype == S16:
            return self._add(acc, self._pairs(a, b, lanes), lanes)
        if dtype == U8:
            total = self._saturated_pairs(a, b, lanes)
            return self._stream.value(f"add {type_of(S16, lanes)} {acc}, {total}")
        if dtype == BF16 and 4 * lanes in self._can.dot_bf16:
            return self._dot_bf16(acc, a, b, lanes)
        separated = self._bf16 if dtype == BF16 else self._f16
        for odd in (True, False):  # the order of vdpbf16ps
            acc = self._multiply_add(separated(a, odd, lanes), separated(b, odd, lanes), acc, lanes)
        return acc

    def _dot_bytes(self, acc: str, a: str, b: str, dtype: DType, lanes: int) -> str:
        names = {U8: self._can.dot_bytes, S8: self._can.dot_signed_bytes}
        if name := names[dtype].get(4 * lanes):
            return self._four(name, acc, a, b, lanes)
        if name := names[S8 if dtype == U8 else U8].get(4 * lanes):
            # a with its top bit flipped is a + 128 as u8, or a - 128 as s8: what was added is subtracted again, a term
            # that LLVM computes once for all a that meet the same b.
            added = self._four(
                name, constant(0, S32, lanes), constant(128, U8, 4 * lanes), b, lanes
            )
            flipped = self._on_bytes("xor", a, -128, lanes)
            return self._sub(self._four(name, acc, flipped, b, lanes), added, lanes)
        for odd in (False, True):
            wide, other = (self._bytes(x, of, odd, 2 * lanes) for x, of in ((a, dtype), (b, S8)))
            acc = self._add(acc, self._pairs(wide, other, lanes), lanes)
        return acc

    def _four(self, name: str, acc: str, a: str, b: str, lanes: int) -> str:
        kind, operand = type_of(S32, lanes), type_of(S8, 4 * lanes)
        return self._stream.intrinsic(name, kind, (kind, acc), (operand, a), (operand, b))

    def _dot_bf16(self, acc: str, a: str, b: str, lanes: int) -> str:
        kind, operand = type_of(F32, lanes), f"<{2 * lanes} x bfloat>"
        halves = [
            self._stream.value(f"bitcast {type_of(S16, 2 * lanes)} {x} to {operand}")
            for x in (a, b)
        ]
        name = self._can.dot_bf16[4 * lanes]
        return self._stream.intrinsic(
            name, kind, (kind, acc), (operand, halves[0]), (operand, halves[1])
        )

    def _f16(self, value: str, odd: bool, lanes: int) -> str:
        """Return the lower or upper half of each 32-bit lane as f32."""
        words = self._words(value, S16, 2 * lanes, lanes)
        if odd:
            words = self._words_op("lshr", words, splat("i32", "16", lanes), lanes)
        kinds = type_of(S32, lanes), type_of(F16, lanes)
        half = self._stream.value(f"trunc {kinds[0]} {words} to {kinds[1]}")
        return self._casts.cast(half, F16, F32, lanes)

    def _bf16(self, value: str, odd: bool, lanes: int) -> str:
        """The lower or upper half of each 32-bit lane as f32: the upper half of an f32 is a bf16."""
        words = self._words(value, S16, 2 * lanes, lanes)
        mask = splat("i32", str(-1 << 16), lanes)
        bits = (
            self._words_op("and", words, mask, lanes) if odd else self._shift("shl", words, lanes)
        )
        return self._stream.value(f"bitcast {type_of(S32, lanes)} {bits} to {type_of(F32, lanes)}")

    def _multiply_add(self, a: str, b: str, acc: str, lanes: int) -> str:
        """Multiply and add two 16-bit floats, which are exact in f32 when multiplied: separate instructions give the
        same sum."""
        kind = type_of(F32, lanes)
        if self._can.fma:
            name = f"llvm.fma.{mangled(F32, lanes)}"
            return self._stream.intrinsic(name, kind, (kind, a), (kind, b), (kind, acc))
        term = self._stream.value(f"fmul {kind} {a}, {b}")
        return self._stream.value(f"fadd {kind} {term}, {acc}")

    def _pairs(self, a: str, b: str, lanes: int) -> str:
        """Return the sums of two neighboring terms of 2 * lanes s16."""
        kind, operand = type_of(S32, lanes), type_of(S16, 2 * lanes)
        if 4 * lanes in self._can.pair_dots:
            name = self._can.pair_dots[4 * lanes]
            return self._stream.intrinsic(name, kind, (operand, a), (operand, b))
        terms = []
        for odd in (False, True):
            sides = []
            for x in (a, b):
                words = self._words(x, S16, 2 * lanes, lanes)
                raised = words if odd else self._shift("shl", words, lanes)
                sides.append(self._shift("ashr", raised, lanes))
            terms.append(self._stream.value(f"mul {kind} {sides[0]}, {sides[1]}"))
        return self._add(terms[0], terms[1], lanes)

    def _saturated_pairs(self, a: str, b: str, lanes: int) -> str:
        """Return the sums of two neighboring terms of 2 * lanes u8 and s8, each of which fits s16, saturated."""
        kind, operand = type_of(S16, lanes), type_of(S8, 2 * lanes)
        if 2 * lanes in self._can.byte_pairs:
            name = self._can.byte_pairs[2 * lanes]
            return self._stream.intrinsic(name, kind, (operand, a), (operand, b))
        terms = []
        for odd in (False, True):
            sides = [self._bytes(x, of, odd, lanes) for x, of in ((a, U8), (b, S8))]
            terms.append(self._stream.value(f"mul {kind} {sides[0]}, {sides[1]}"))
        name = f"llvm.sadd.sat.{mangled(S16, lanes)}"
        return self._stream.intrinsic(name, kind, (kind, terms[0]), (kind, terms[1]))

    def _bytes(self, value: str, dtype: DType, odd: bool, lanes: int) -> str:
        """Return every second of 2 * lanes bytes, widened to the 16 bits that hold it."""
        kind = type_of(S16, lanes)
        value = self._words(value, dtype, 2 * lanes, lanes, S16)
        eight = splat("i16", "8", lanes)
        if not odd:
            value = self._stream.value(f"shl {kind} {value}, {eight}")
        shift = "ashr" if dtype == S8 else "lshr"
        return self._stream.value(f"{shift} {kind} {value}, {eight}")

    def _words(self, value: str, source: DType, count: int, lanes: int, to: DType = S32) -> str:
        return self._stream.value(
            f"bitcast {type_of(source, count)} {value} to {type_of(to, lanes)}"
        )

    def _shift(self, op: str, value: str, lanes: int) -> str:
        return self._words_op(op, value, splat("i32", "16", lanes), lanes)

    def _words_op(self, op: str, value: str, other: str, lanes: int) -> str:
        return self._stream.value(f"{op} {type_of(S32, lanes)} {value}, {other}")

    def _on_bytes(self, op: str, value: str, number: int, lanes: int) -> str:
        kind = vector_of("i8", 4 * lanes)
        return self._stream.value(f"{op} {kind} {value}, {splat('i8', str(number), 4 * lanes)}")

    def _add(self, a: str, b: str, lanes: int) -> str:
        return self._words_op("add", a, b, lanes)

    def _sub(self, a: str, b: str, lanes: int) -> str:
        return self._words_op("sub", a, b, lanes)
