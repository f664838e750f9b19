"""matmul_nbits: a matmul with constant weights of 4 or 8 bits, which stay packed in memory, scaled in groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.dims import Size
from ...base.dtypes import F16, F32, S8, S64, U8
from ...base.size_queries import typical_all
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import IntAttr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.operands import Operand, OptionalOperand
from ..ir.registry import register

WORD_BYTES = 4
"""Bytes that hold neighboring k of one column: what a 32-bit lane unpacks."""


@register("matmul_nbits")
class MatmulNBits(TunableOp):
    """C[m, n] = sum over k of X[m, k] * (Q[n, k] - zero[n, k / group]) * scale[n, k / group].

    w holds Q in words of 4 bytes: of the 32 / bits numbers k of a word, number 4 * h + i is in byte i from bit
    h * bits on. X is f32, or s8 with a scale per row and group.
    """

    x = Operand("f32 or s8 [m, k]")
    w = Operand("u8 [n, k * bits / 8]")
    scale = Operand("f32 or f16 [n, k / group]")
    zero_point = Operand("f32 [n, k / group] or [1, 1], whole numbers")
    x_scale = OptionalOperand("f32 [m, k / group], where x is s8")
    bits = IntAttr("of a weight: 4 or 8", least=4)
    group = IntAttr("neighboring k that share a scale", least=4)

    @property
    def sizes(self) -> tuple[Size, int, int]:
        """(m, n, k); m may be dynamic."""
        m, k = self.x.details.plain_dims
        return m, self.w.details.plain_dims[0], k

    @property
    def numbers(self) -> int:
        """The number of weights in a word."""
        return 8 * WORD_BYTES // self.bits

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """f32 [m, n]."""
        x, w, scale, zero, *x_scale = inputs
        if self.bits not in (4, 8) or self.group % self.numbers:
            rule = "bits must be 4 or 8 and group a multiple of 32 / bits"
            raise self.rule(rule, f"bits {self.bits}, group {self.group}")
        if x.rank != 2 or w.rank != 2 or w.dtype != U8 or x.dtype != (S8 if x_scale else F32):
            wanted = "f32 [m, k], or s8 with x_scale, and w u8 [n, bytes]"
            raise self.rule(f"x must be {wanted}", f"{x} and {w}")
        (m, k), (n, size) = x.plain_dims, w.plain_dims
        if k % self.group or size * 8 != k * self.bits:
            rule = (
                f"k must be a multiple of group {self.group}, and w have k * bits / 8 bytes a row"
            )
            raise self.rule(rule, f"{x} and {w}")
        groups = k // self.group
        wanted_dims = {"scale": (n, groups), "zero_point": (n, groups), "x_scale": (m, groups)}
        for (name, dims), given in zip(wanted_dims.items(), (scale, zero, *x_scale), strict=False):
            uniform = name == "zero_point" and given.plain_dims == (1, 1)
            types = (F32, F16) if name == "scale" else (F32,)
            if given.dtype not in types or not (given.plain_dims == dims or uniform):
                wanted = " or ".join(map(str, types))
                raise self.rule(f"{name} must be {wanted} {list(dims)}", str(given))
        return [LogicalTensor(F32, (m, n))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64, rounded once."""
        x, w, scale, zero, *x_scale = inputs
        n, groups = scale.shape
        centered = unpacked_words(w, self.bits).reshape(n, groups, self.group) - zero.astype(
            np.float64
        ).reshape(*zero.shape, 1)
        with np.errstate(all="ignore"):
            weights = (centered * scale[..., None].astype(np.float64)).reshape(n, -1)
            rows = x.astype(np.float64)
            if x_scale:
                rows = rows * np.repeat(x_scale[0].astype(np.float64), self.group, axis=1)
            return [(rows @ weights.T).astype(np.float32)]

    def get_gflop(self) -> float:
        """Two operations per multiply-add."""
        m, n, k = typical_all(self.sizes)
        return 2.0 * m * n * k / 1e9

    def computation(self) -> Computation:
        """The formula, number by number."""
        group, bits, numbers = self.group, self.bits, self.numbers
        one_zero = self.zero_point.details.elements == 1

        def element(reads: Sequence[Read], index: Index, r: Index) -> Expr:
            x, w, scale, zero, *x_scale = reads
            (m, n), (k,) = index, r
            of_group = k // group
            word, number = k // numbers, k % numbers
            byte_index = word * WORD_BYTES + number % WORD_BYTES
            shift = number // WORD_BYTES * bits
            byte = t.cast(w((n, byte_index)), S64)
            q = byte >> shift & (1 << bits) - 1
            z = zero((t.as_expr(0),) * 2) if one_zero else zero((n, of_group))
            weight = (t.cast(q, F32) - z) * t.cast(scale((n, of_group)), F32)
            row = t.cast(x((m, k)), F32)
            if x_scale:
                row = row * x_scale[0]((m, of_group))
            return row * weight

        return Reduction((self.sizes[2],), "add", 0.0, element, lambda total: total)


def packed_words(numbers: Array, bits: int) -> Array:
    """[n, k] numbers below 2**bits as words; k is a multiple of the numbers in a word."""
    n, k = numbers.shape
    fields = 8 // bits
    parts = numbers.astype(np.uint8).reshape(n, -1, fields, WORD_BYTES)
    shifts = np.arange(0, 8, bits, dtype=np.uint8).reshape(fields, 1)
    return np.bitwise_or.reduce(parts << shifts, axis=2).reshape(n, k // fields)


def unpacked_words(words: Array, bits: int) -> Array:
    """The inverse of `packed_words`."""
    n, size = words.shape
    shifts = np.arange(0, 8, bits, dtype=np.uint8).reshape(-1, 1)
    parts = (words.reshape(n, -1, 1, WORD_BYTES) >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(n, size * 8 // bits)
