"""The vector operations that `codegen.math` is written in, and their emission as LLVM text.

A function of `codegen.math` is written once, against `VectorOps`: with `LlvmVectorOps` it emits instructions, with
`NumpyVectorOps` (numpy_vector_ops.py) it computes, so that its error is tested without compiling anything.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, Protocol

Value = Any
"""A float vector, an integer vector of the same width, or a mask, as the implementation represents them."""

Arm = Callable[[], tuple[Value, ...]]
"""One side of a branch."""


class VectorOps(Protocol):
    """Operations on vectors of one float type, f32 or f64, and on integers of the same width.

    Floats follow IEEE 754 in round-to-nearest, nothing is contracted or reordered; integers wrap. `fma` rounds once
    where `has_fma`, and is a multiplication followed by an addition where not. `min(a, b)` is a if a < b else b, and
    `max` likewise: if either is NaN the result is b, so pass a bound first to propagate NaN.
    """

    bits: int
    has_fma: bool
    has_scalef: bool

    @property
    def wide(self) -> VectorOps:
        """The same lanes in f64."""
        ...

    def const(self, value: float) -> Value:
        """A float constant, rounded to the type."""
        ...

    def int_const(self, value: int) -> Value:
        """An integer constant, as many bits as the float type."""
        ...

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        ...

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        ...

    def mul(self, a: Value, b: Value) -> Value:
        """a * b."""
        ...

    def div(self, a: Value, b: Value) -> Value:
        """a / b."""
        ...

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, see the class for the rounding."""
        ...

    def scalef(self, a: Value, n: Value, kept: Value | None = None) -> Value:
        """a * 2**n for an integral n, rounded once, and 0 in lanes that are not `kept`, whatever n is there.

        Only where `has_scalef`, and in f32. A result below the normal numbers takes a CPU more than 100 cycles."""
        ...

    def neg(self, a: Value) -> Value:
        """The sign bit flipped."""
        ...

    def abs(self, a: Value) -> Value:
        """The sign bit cleared."""
        ...

    def copysign(self, a: Value, sign: Value) -> Value:
        """The magnitude of a with the sign bit of `sign`."""
        ...

    def sqrt(self, a: Value) -> Value:
        """The square root, correctly rounded."""
        ...

    def min(self, a: Value, b: Value) -> Value:
        """A if a < b else b."""
        ...

    def max(self, a: Value, b: Value) -> Value:
        """A if a > b else b."""
        ...

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """The mask of a `op` b for floats; op is lt, le, gt, ge, eq (false with NaN), ne or nlt (true with NaN)."""
        ...

    def int_compare(self, op: str, a: Value, b: Value) -> Value:
        """The mask of a `op` b for signed integers; op is lt, le, gt, ge, eq or ne."""
        ...

    def mask_and(self, a: Value, b: Value) -> Value:
        """Both masks."""
        ...

    def mask_or(self, a: Value, b: Value) -> Value:
        """Either mask."""
        ...

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """A (float) where the mask is set, else b."""
        ...

    def int_select(self, mask: Value, a: Value, b: Value) -> Value:
        """A (integer) where the mask is set, else b."""
        ...

    def choose(self, mask: Value, usual: Arm, otherwise: Arm) -> tuple[Value, ...]:
        """The floats of `usual` if the mask is set in all lanes, else those of `otherwise`: a branch.

        Where the mask is set both must give the same bits, so that a lane does not depend on its neighbors.
        """
        ...

    def repeat(
        self, again: Callable[[Value], Value], step: Callable[[Value], Value], value: Value
    ) -> Value:
        """Return the float `value` after as many steps as its lanes need: while `again(value)` holds in any of them.

        A step must leave lanes alone for which it does not hold.
        """
        ...

    def to_bits(self, a: Value) -> Value:
        """The bit pattern of a float as an integer."""
        ...

    def from_bits(self, a: Value) -> Value:
        """The float of a bit pattern."""
        ...

    def int_add(self, a: Value, b: Value) -> Value:
        """a + b."""
        ...

    def int_sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        ...

    def int_and(self, a: Value, b: Value) -> Value:
        """a & b."""
        ...

    def int_or(self, a: Value, b: Value) -> Value:
        """a | b."""
        ...

    def int_xor(self, a: Value, b: Value) -> Value:
        """a ^ b."""
        ...

    def shift_left(self, a: Value, count: int) -> Value:
        """a << count, 0 <= count < bits."""
        ...

    def shift_right(self, a: Value, count: int) -> Value:
        """a >> count with zeros coming in."""
        ...

    def shift_right_signed(self, a: Value, count: int) -> Value:
        """a >> count with copies of the sign coming in."""
        ...

    def from_int(self, a: Value) -> Value:
        """The float of an integer of magnitude below 2**22 (f32) or 2**51 (f64)."""
        ...

    def widen(self, a: Value) -> Value:
        """An f32 value as a value of `wide`."""
        ...

    def narrow(self, a: Value) -> Value:
        """A value of `wide` rounded to f32."""
        ...


_FLOAT_TYPES = {32: "float", 64: "double"}
_UNORDERED = {"ne": "une", "nlt": "uge"}
# lanes: type of the mask, and the operand that asks for the current rounding mode
_SCALEF = {16: ("i16", ", i32 4"), 8: ("i8", ""), 4: ("i8", "")}


class LlvmVectorOps:
    """`VectorOps` that emits LLVM IR text.

    `emit` receives one instruction per call, without indentation; `fresh` returns an unused value name with its `%`.
    Values are operands without their type: such a name, or a constant. With lanes == 1 they are scalars. The
    `declare` lines of the intrinsics in use are added to `declares`, which the caller puts into the module. `bits`
    is 32 or 64. `begin` starts a block of this name (default: emits its label). With `has_fma` false no `llvm.fma` is
    emitted, since it would become a call into libm.
    """

    def __init__(
        self,
        emit: Callable[[str], None],
        fresh: Callable[[], str],
        lanes: int,
        has_fma: bool,
        bits: int = 32,
        declares: set[str] | None = None,
        scalef: Mapping[int, str] | None = None,
        begin: Callable[[str], None] | None = None,
    ) -> None:
        self.lanes = lanes
        self.has_fma = has_fma
        self._scalef = (scalef or {}).get(lanes, "") if bits == 32 else ""
        self.has_scalef = bool(self._scalef)
        self.bits = bits
        self.declares: set[str] = set() if declares is None else declares
        self._emit = emit
        self._fresh = fresh
        self._begin = begin or (lambda label: emit(f"{label}:"))
        self._float = self._vector_of(_FLOAT_TYPES[bits])
        self._int = self._vector_of(f"i{bits}")
        self._mask = self._vector_of("i1")

    @property
    def wide(self) -> LlvmVectorOps:
        """The same lanes in f64."""
        return LlvmVectorOps(
            self._emit, self._fresh, self.lanes, self.has_fma, 64, self.declares, begin=self._begin
        )

    def const(self, value: float) -> Value:
        """A float constant: the hexadecimal form, which LLVM spells as an f64 for both types."""
        rounded = struct.unpack("<f", struct.pack("<f", value))[0] if self.bits == 32 else value
        return self._constant(
            _FLOAT_TYPES[self.bits], f"0x{struct.pack('>d', rounded).hex().upper()}"
        )

    def int_const(self, value: int) -> Value:
        """An integer constant."""
        return self._constant(f"i{self.bits}", str(value))

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self._value(f"fadd {self._float} {a}, {b}")

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self._value(f"fsub {self._float} {a}, {b}")

    def mul(self, a: Value, b: Value) -> Value:
        """a * b."""
        return self._value(f"fmul {self._float} {a}, {b}")

    def div(self, a: Value, b: Value) -> Value:
        """a / b."""
        return self._value(f"fdiv {self._float} {a}, {b}")

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, fused if the target supports it."""
        return self._intrinsic("fma", a, b, c) if self.has_fma else self.add(self.mul(a, b), c)

    def scalef(self, a: Value, n: Value, kept: Value | None = None) -> Value:
        """a * 2**n: one `vscalefps`, masked if not all lanes are `kept`."""
        mask, rounding = _SCALEF[self.lanes]
        lanes = "-1"
        if kept is not None:
            lanes = self._value(f"bitcast {self._mask} {kept} to i{self.lanes}")
            if mask != f"i{self.lanes}":
                lanes = self._value(f"zext i{self.lanes} {lanes} to {mask}")
        function = f"{self._float} @{self._scalef}"
        self.declares.add(
            f"declare {function}({', '.join([self._float] * 3)}, {mask}{', i32' if rounding else ''})"
        )
        operands = f"{self._float} {a}, {self._float} {n}, {self._float} zeroinitializer, {mask} {lanes}{rounding}"
        return self._value(f"call {function}({operands})")

    def neg(self, a: Value) -> Value:
        """The sign bit flipped."""
        return self._value(f"fneg {self._float} {a}")

    def abs(self, a: Value) -> Value:
        """The sign bit cleared."""
        return self._intrinsic("fabs", a)

    def copysign(self, a: Value, sign: Value) -> Value:
        """The magnitude of a with the sign bit of `sign`."""
        return self._intrinsic("copysign", a, sign)

    def sqrt(self, a: Value) -> Value:
        """The square root."""
        return self._intrinsic("sqrt", a)

    def min(self, a: Value, b: Value) -> Value:
        """A if a < b else b: one `minps`."""
        return self.select(self.compare("lt", a, b), a, b)

    def max(self, a: Value, b: Value) -> Value:
        """A if a > b else b: one `maxps`."""
        return self.select(self.compare("gt", a, b), a, b)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """The mask of a `op` b for floats."""
        predicate = _UNORDERED.get(op, f"o{op}")
        return self._value(f"fcmp {predicate} {self._float} {a}, {b}")

    def int_compare(self, op: str, a: Value, b: Value) -> Value:
        """The mask of a `op` b for signed integers."""
        sign = "" if op in ("eq", "ne") else "s"
        return self._value(f"icmp {sign}{op} {self._int} {a}, {b}")

    def mask_and(self, a: Value, b: Value) -> Value:
        """Both masks."""
        return self._value(f"and {self._mask} {a}, {b}")

    def mask_or(self, a: Value, b: Value) -> Value:
        """Either mask."""
        return self._value(f"or {self._mask} {a}, {b}")

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """A (float) where the mask is set, else b."""
        return self._value(f"select {self._mask} {mask}, {self._float} {a}, {self._float} {b}")

    def int_select(self, mask: Value, a: Value, b: Value) -> Value:
        """A (integer) where the mask is set, else b."""
        return self._value(f"select {self._mask} {mask}, {self._int} {a}, {self._int} {b}")

    def _in_lanes(self, mask: Value, predicate: str, lanes: int) -> Value:
        """Return a mask as one bit: whether it is ("eq") or is not ("ne") all lanes set, -1, or none, 0."""
        if self.lanes == 1:
            return mask
        word = f"i{self.lanes}"
        bits = self._value(f"bitcast {self._mask} {mask} to {word}")
        return self._value(f"icmp {predicate} {word} {bits}, {lanes}")

    def repeat(
        self, again: Callable[[Value], Value], step: Callable[[Value], Value], value: Value
    ) -> Value:
        """A block that tests, one that steps; neither may branch."""
        before, test, body, done = (self._fresh()[1:] for _ in range(4))
        now, then = self._fresh(), self._fresh()
        self._emit(f"br label %{before}")
        self._begin(before)
        self._emit(f"br label %{test}")
        self._begin(test)
        self._emit(f"{now} = phi {self._float} [ {value}, %{before} ], [ {then}, %{body} ]")
        some = self._in_lanes(again(now), "ne", 0)
        self._emit(f"br i1 {some}, label %{body}, label %{done}")
        self._begin(body)
        self._emit(f"{then} = bitcast {self._float} {step(now)} to {self._float}")
        self._emit(f"br label %{test}")
        self._begin(done)
        return now

    def choose(self, mask: Value, usual: Arm, otherwise: Arm) -> tuple[Value, ...]:
        """Both sides as blocks, joined by phis; neither side may branch."""
        mask = self._in_lanes(mask, "eq", -1)
        labels = [self._fresh()[1:] for _ in range(3)]
        self._emit(f"br i1 {mask}, label %{labels[0]}, label %{labels[1]}")
        found = []
        for label, arm in zip(labels, (usual, otherwise), strict=False):
            self._begin(label)
            found.append(arm())
            self._emit(f"br label %{labels[2]}")
        self._begin(labels[2])
        return tuple(
            self._value(f"phi {self._float} [ {a}, %{labels[0]} ], [ {b}, %{labels[1]} ]")
            for a, b in zip(*found, strict=True)
        )

    def to_bits(self, a: Value) -> Value:
        """The bit pattern of a float as an integer."""
        return self._value(f"bitcast {self._float} {a} to {self._int}")

    def from_bits(self, a: Value) -> Value:
        """The float of a bit pattern."""
        return self._value(f"bitcast {self._int} {a} to {self._float}")

    def int_add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self._value(f"add {self._int} {a}, {b}")

    def int_sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return self._value(f"sub {self._int} {a}, {b}")

    def int_and(self, a: Value, b: Value) -> Value:
        """a & b."""
        return self._value(f"and {self._int} {a}, {b}")

    def int_or(self, a: Value, b: Value) -> Value:
        """a | b."""
        return self._value(f"or {self._int} {a}, {b}")

    def int_xor(self, a: Value, b: Value) -> Value:
        """a ^ b."""
        return self._value(f"xor {self._int} {a}, {b}")

    def shift_left(self, a: Value, count: int) -> Value:
        """a << count."""
        return self._value(f"shl {self._int} {a}, {self.int_const(count)}")

    def shift_right(self, a: Value, count: int) -> Value:
        """a >> count with zeros coming in."""
        return self._value(f"lshr {self._int} {a}, {self.int_const(count)}")

    def shift_right_signed(self, a: Value, count: int) -> Value:
        """a >> count with copies of the sign coming in."""
        return self._value(f"ashr {self._int} {a}, {self.int_const(count)}")

    def from_int(self, a: Value) -> Value:
        """The float of a small integer; through the mantissa in f64, for which some ISAs have no conversion."""
        if self.bits == 32:
            return self._value(f"sitofp {self._int} {a} to {self._float}")
        offset = 1.5 * 2.0**52
        pattern = struct.unpack("<q", struct.pack("<d", offset))[0]
        return self.sub(
            self.from_bits(self.int_add(a, self.int_const(pattern))), self.const(offset)
        )

    def widen(self, a: Value) -> Value:
        """An f32 value as f64."""
        narrow, wide = (self._vector_of(_FLOAT_TYPES[bits]) for bits in (32, 64))
        return self._value(f"fpext {narrow} {a} to {wide}")

    def narrow(self, a: Value) -> Value:
        """An f64 value rounded to f32."""
        narrow, wide = (self._vector_of(_FLOAT_TYPES[bits]) for bits in (32, 64))
        return self._value(f"fptrunc {wide} {a} to {narrow}")

    def _vector_of(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def _constant(self, element: str, text: str) -> str:
        return text if self.lanes == 1 else f"splat ({element} {text})"

    def _value(self, instruction: str) -> str:
        name = self._fresh()
        self._emit(f"{name} = {instruction}")
        return name

    def _intrinsic(self, name: str, *args: Value) -> str:
        suffix = f"f{self.bits}" if self.lanes == 1 else f"v{self.lanes}f{self.bits}"
        function = f"{self._float} @llvm.{name}.{suffix}"
        self.declares.add(f"declare {function}({', '.join([self._float] * len(args))})")
        return self._value(f"call {function}({', '.join(f'{self._float} {a}' for a in args)})")
