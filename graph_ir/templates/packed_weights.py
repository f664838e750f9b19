"""Weights of 4 or 8 bits in words, with a scale and a zero point per group of k: how a panel of them is read."""

from __future__ import annotations

from dataclasses import replace

from ...base.dtypes import F32, S32, U8, U32
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import (
    Block,
    Broadcast,
    Buffer,
    Expr,
    Let,
    Load,
    Prefetch,
    Slice,
    Stmt,
    Store,
    Var,
)
from ..nest.packing import loop

WORD = 4
"""Bytes of a word, and neighboring k of one dot product."""

LINE = 64
"""Bytes of a cache line."""

FAR = 16 << 10
"""Bytes between what is multiplied and what is fetched meanwhile: a third of an L1, and 0.3 us at 50 GB/s."""


@dataclass(frozen=True)
class PackedWeights:
    """Buffers of the weights [n, k], their scales and zero points, all in panels as wide as the register tile.

    `zero` may hold one number for all weights.
    """

    words: Buffer
    scale: Buffer
    zero: Buffer
    bits: int
    group: int

    @property
    def has_one_zero(self) -> bool:
        """Return whether all weights have one zero point."""
        return self.zero.elements == 1

    @property
    def numbers(self) -> int:
        """Weights in a word."""
        return 8 * WORD // self.bits


@dataclass(frozen=True)
class WeightPanel:
    """One panel of `columns` columns, as vectors of 32-bit lanes. `is_copy`: its words alone are in their buffer."""

    weights: PackedWeights
    panel: Expr
    columns: int
    k: int
    lanes: int
    is_copy: bool = False

    def word(self, number: Expr, v: int) -> Expr:
        """Word `number` of each column of vector `v`."""
        row = self.columns * WORD
        size = row * (self.k // self.weights.numbers)
        at = number * row + v * self.lanes * WORD
        if not self.is_copy:
            at = self.panel * size + at
        return t.bitcast(Load(self.weights.words, (at,), self.lanes * WORD), U32)

    def fetched(self, number: Expr) -> list[Stmt]:
        """Hints for the words that come `FAR` bytes after word `number` of each column.

        Dequantizing takes enough instructions that only few loads are under way at a time, which is too few where
        weights do not stay in the L3: 1x11008x4096 takes 0.80 of the time for rows in f32, 0.91 for rows in s8.
        """
        row = self.columns * WORD
        start = self.panel * (row * (self.k // self.weights.numbers)) + number * row
        lines = range(FAR, FAR + row, LINE)
        return [Prefetch(Slice(self.weights.words, (start + at,)), 1) for at in lines]

    def number(self, word: Expr, index: int) -> Expr:
        """Number `index` of each word as f32."""
        field, byte = divmod(index, WORD)
        bits = self.weights.bits
        shift = 8 * byte + field * bits
        if shift:
            word = word >> shift
        if shift + bits < 32:
            word = word & (1 << bits) - 1
        return t.cast(t.bitcast(word, S32), F32)

    def picked(self, word: Expr, index: int, table: Expr) -> Expr:
        """Number `index` of each word through a table with a lane for each number there is."""
        field, byte = divmod(index, WORD)
        shift = 8 * byte + field * self.weights.bits
        if shift:
            word = word >> shift
        return t.call("pick", table, t.bitcast(word, S32))

    def quad(self, word: Expr, field: int) -> Expr:
        """Four neighboring numbers of each word, as bytes."""
        bits = self.weights.bits
        if field:
            word = word >> field * bits
        if bits < 8:
            word = word & ((1 << bits) - 1) * 0x01010101
        return t.bitcast(word, U8)

    def scale(self, group: Expr, v: int) -> Expr:
        """The scales of a group."""
        return t.cast(Load(self.weights.scale, (self._of_group(group, v),), self.lanes), F32)

    def zero(self, group: Expr, v: int) -> Expr:
        """The zero points of a group."""
        if self.weights.has_one_zero:
            return Broadcast(Load(self.weights.zero, (t.as_expr(0),)), self.lanes)
        return Load(self.weights.zero, (self._of_group(group, v),), self.lanes)

    def _of_group(self, group: Expr, v: int) -> Expr:
        groups = self.k // self.weights.group
        at = (self.panel * groups + group) * self.columns
        return at + v * self.lanes

    def as_bytes(self, local: Buffer, vectors: int, fetches: bool) -> tuple[WeightPanel, Stmt]:
        """(the same panel with a byte for each number, in `local`; the copy, which `fetches` words ahead)."""
        fields, word = 8 // self.weights.bits, Var("bw")
        body = self.fetched(word) if fetches else []
        for v in range(vectors):
            packed = Var(f"bp{v}", U32, self.lanes)
            body.append(Let(packed, self.word(word, v)))
            for i in range(fields):
                row = (word * fields + i) * (self.columns * WORD)
                at = row + v * self.lanes * WORD
                body.append(Store(local, (at,), self.quad(packed, i)))
        copy = loop(word, self.k // self.weights.numbers, Block(tuple(body)), "serial")
        return replace(self, weights=replace(self.weights, words=local, bits=8), is_copy=True), copy

    def unpack(self, k0: int, k: int, local: Buffer, vectors: int) -> Stmt:
        """Write (Q - zero) * scale of `k` k from `k0` on to a panel of floats, row after row.

        Both are multiples of the group, or `k` divides it.
        """
        size, part, word = min(self.weights.group, k), Var("ug"), Var("uw")
        group = part + k0 // self.weights.group
        body: list[Stmt] = []
        numbers = self.weights.numbers
        inner: list[Stmt] = []
        first = part * (size // numbers) + (word + k0 // numbers)
        row = part * size + word * numbers
        for v in range(vectors):
            scale, zero = (Var(f"{name}{v}", F32, self.lanes) for name in ("us", "uz"))
            body += [Let(scale, self.scale(group, v)), Let(zero, self.zero(group, v))]
            packed = Var(f"up{v}", U32, self.lanes)
            inner.append(Let(packed, self.word(first, v)))
            for i in range(numbers):
                value = (self.number(packed, i) - zero) * scale
                at = (row + i) * self.columns + v * self.lanes
                inner.append(Store(local, (at,), value))
        words = loop(word, size // numbers, Block(tuple(inner)), "serial")
        return loop(part, k // size, Block((*body, words)), "serial")
