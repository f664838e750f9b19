"""matmul_nbits: a matmul with constant weights of 2 to 16 bits, which stay packed in memory, scaled in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...base.dims import MOST, Size, Symbol, bounds, size
from ...base.dtypes import BF16, F8E8M0FNU, F16, F32, S8, S64, U8, DType, by_name
from ...base.packed_words import LOW_BITS, NIBBLE, WORD_BYTES, unpacked_words
from ...base.size_queries import typical_all
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from ..ir.attributes import IntAttr, StrAttr
from ..ir.computation import Computation, Index, Read, Reduction
from ..ir.graph import Array, GraphTensor
from ..ir.logical_tensor import LogicalTensor
from ..ir.op_kinds import TunableOp
from ..ir.operands import Operand, VariadicOperand
from ..ir.registry import register

PARTS: Mapping[str, tuple[DType, ...]] = {
    "high": (U8,),
    "book": (U8,),
    "block_scale": (F32, F16),
    "minimum": (F32, F16, U8),
    "block_minimum": (F32, F16),
    "expert": (S64,),
    "x_scale": (F32,),
}
"""Operands that weights may have beside words, scales and zero points, in their order, and their dtypes."""

Dims = tuple[Size, ...]

FLOAT_BITS = 16
"""Bits of levels that are floats."""

SCALES = (F32, F16, U8, S8, F8E8M0FNU, by_name("f8e4m3fn"))
"""Dtypes of scales of groups."""


@register("matmul_nbits")
class MatmulNBits(TunableOp):
    """C[m, n] = sum over k of X[m, k] * W[n, k], where W = (level - zero_point) * scale + minimum.

    w holds levels in words of 4 bytes: of the 32 / bits numbers k of a word, number 4 * h + i is in byte i from bit
    h * bits on. Levels of 3, 5 and 6 bits have their upper 1 or 2 bits in words of `high`. `book` maps 4 bits to
    levels. Levels of 16 bits are floats. A scale or minimum is that of its group, times that of its block where there
    is one; a block's minimum without minima of groups is multiplied by the upper nibble of `scale`, whose lower one is
    the scale.
    X is f32, or s8 with `x_scale`, which is -127 or more where `zero` is given.
    With `expert`, weights are a matrix [n, k] for each of several experts: row i of X is multiplied by that of
    expert[i], whose operands have the experts as their first axis; a row of no expert is 0.
    """

    x = Operand("f32 or s8 [m, k]")
    w = Operand(
        "u8 [n, k * low bits / 8], or f16 or bf16 [n, k]; of experts [experts, n, ...], as are the next ones"
    )
    scale = Operand("f32, f16, u8, s8 or f8 [n, k / group]")
    zero_point = Operand("f32 [n, k / group] or [1, 1], integers")
    others = VariadicOperand(
        "those that `parts` names: high u8 [n, k * high bits / 8], book u8 [16], block_scale and block_minimum "
        "[n, blocks of k], minimum [n, k / group], expert s64 [m], x_scale f32 [m, groups of k]"
    )
    bits = IntAttr("of a level: 2, 3, 4, 5, 6 or 8, or 16 of a float", least=2)
    group = IntAttr("neighboring k that share a scale", least=4)
    parts = StrAttr(f"names of the other operands: {', '.join(PARTS)}", default="")
    zero = IntAttr("the value of a zero_point [1, 1], -1 if it is not known", default=-1, least=-1)

    @property
    def sizes(self) -> tuple[Size, int, int]:
        """(m, n, k); m may be dynamic: of experts, it is the number of neighboring rows that have the same one."""
        m, k = self.x.details.plain_dims
        if self.part("expert") is not None:
            m = size(Symbol("rows_of_expert", 1, min(max(bounds(m)[1], 1), MOST)))
        return m, self.w.details.plain_dims[-2], k

    @property
    def experts(self) -> int:
        """Matrices of weights; 0 where there is one for all rows."""
        return self.w.details.plain_dims[0] if self.part("expert") is not None else 0

    @property
    def numbers(self) -> int:
        """The number of levels in a word."""
        return 8 * WORD_BYTES // LOW_BITS[self.bits]

    @property
    def part_names(self) -> list[str]:
        """The names of the other operands."""
        return self.parts.split(",") if self.parts else []

    def part(self, name: str) -> GraphTensor | None:
        """Return another operand by its name; None if the op does not have it."""
        return dict(zip(self.part_names, self.others, strict=True)).get(name)

    @property
    def x_group(self) -> int:
        """Neighboring k of a row that share a scale; those of the weights where X is f32."""
        scale = self.part("x_scale")
        return self.group if scale is None else self.sizes[2] // int(scale.details.plain_dims[1])

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """f32 [m, n]."""
        x, w, scale, zero, *others = inputs
        names = self.part_names
        if names != [one for one in PARTS if one in names] or len(names) != len(others):
            rule = f"parts must name the operands after zero_point, of {', '.join(PARTS)} in this order"
            raise self.rule(rule, f"'{self.parts}' and {len(others)} operands")
        parts = dict(zip(names, others, strict=True))
        if self.bits not in LOW_BITS or self.group % self.numbers:
            rule = "bits must be 2 to 6, 8 or 16, and group a multiple of the levels of a word"
            raise self.rule(rule, f"bits {self.bits}, group {self.group}")
        given = S8 if "x_scale" in parts else F32
        levels = (F16, BF16) if self.bits == FLOAT_BITS else (U8,)
        lead = w.plain_dims[:-1]
        rank = 3 if "expert" in parts else 2
        if x.rank != 2 or w.rank != rank or w.dtype not in levels or x.dtype != given:
            wanted = (
                "f32 [m, k], or s8 with x_scale, and w u8 [n, bytes], or f16 or bf16 of 16 bits"
            )
            raise self.rule(f"x must be {wanted}", f"{x} and {w}")
        (m, k), row = x.plain_dims, w.plain_dims[-1]
        low = LOW_BITS[self.bits]
        if k % self.group or row * w.dtype.bits != k * low:
            rule = (
                f"k must be a multiple of group {self.group}, and w have k * {low} / 8 bytes a row"
            )
            raise self.rule(rule, f"{x} and {w}")
        self._check_groups(scale, zero, (*lead, k // self.group))
        self._check_parts(parts, m, lead, k)
        return [LogicalTensor(F32, (m, lead[-1]))]

    def _check_groups(self, scale: LogicalTensor, zero: LogicalTensor, dims: Dims) -> None:
        for name, given, dtypes in (("scale", scale, SCALES), ("zero_point", zero, (F32,))):
            uniform = name == "zero_point" and given.plain_dims == (1, 1)
            if given.dtype not in dtypes or not (given.plain_dims == dims or uniform):
                wanted = " or ".join(map(str, dtypes))
                raise self.rule(f"{name} must be {wanted} {list(dims)}", str(given))

    def _check_parts(self, parts: Mapping[str, LogicalTensor], m: Size, lead: Dims, k: int) -> None:
        high = self.bits - LOW_BITS[self.bits]
        if (high > 0) != ("high" in parts) or ("book" in parts and self.bits != 4):
            rule = "parts must have high where bits are 3, 5 or 6, and book only where they are 4"
            raise self.rule(rule, f"bits {self.bits} and '{self.parts}'")
        groups = k // self.group
        dims: dict[str, Dims] = {
            "high": (*lead, k * high // 8), "book": (16,), "minimum": (*lead, groups), "expert": (m,),
        }  # fmt: skip
        for name, given in parts.items():
            rows = (m,) if name == "x_scale" else lead
            fits = given.plain_dims == dims.get(name, (*rows, *given.plain_dims[-1:]))
            if name not in dims:
                fits = fits and _divides(given.plain_dims[-1], groups, k, name)
            if not fits or given.dtype not in PARTS[name]:
                wanted = " or ".join(map(str, PARTS[name]))
                shape = list(dims.get(name, (*rows, groups)))
                raise self.rule(f"{name} must be {wanted} {shape}", str(given))

    def named(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Return the operands by name."""
        names = ("x", "w", "scale", "zero_point", *self.part_names)
        return dict(zip(names, inputs, strict=True))

    def levels(self, inputs: Sequence[Array]) -> Array:
        """Return the levels less their zero points, f64 [n, groups, group], of experts [experts, n, groups, group]."""
        given = self.named(inputs)
        if self.bits == FLOAT_BITS:
            return np.asarray(
                given["w"].astype(np.float64).reshape(*given["scale"].shape, self.group)
            )
        levels = unpacked_words(given["w"], LOW_BITS[self.bits])
        if "high" in given:
            high: Array = unpacked_words(given["high"], self.bits - LOW_BITS[self.bits])
            levels = levels | high << LOW_BITS[self.bits]
        if "book" in given:
            levels = given["book"][levels]
        zero = given["zero_point"].astype(np.float64)
        return np.asarray(levels.reshape(*given["scale"].shape, self.group) - zero[..., None])

    def scales(self, inputs: Sequence[Array]) -> tuple[Array, Array]:
        """Return the scale and the minimum of each group, f32 [..., n, groups]; of integers each is rounded once."""
        given = self.named(inputs)
        scale, block = given["scale"], given.get("block_minimum")
        minimum = given.get("minimum", np.zeros_like(scale, np.float32))
        if block is not None and "minimum" not in given:
            scale, minimum = scale & NIBBLE, scale >> 4
        found = []
        for one, of_block in ((scale, given.get("block_scale")), (minimum, block)):
            wide = one.astype(np.float32)
            if of_block is not None:
                blocks = of_block.astype(np.float32)
                wide = wide * np.repeat(blocks, wide.shape[-1] // blocks.shape[-1], axis=-1)
            found.append(wide)
        return found[0], found[1]

    def weights(self, inputs: Sequence[Array]) -> Array:
        """Return the weights, f64 [..., n, k]."""
        levels, (scale, minimum) = self.levels(inputs), self.scales(inputs)
        wide = levels * scale[..., None].astype(np.float64) + minimum[..., None]
        return np.asarray(wide.reshape(*levels.shape[:-2], -1))

    def multiplied(self, inputs: Sequence[Array], rows: Array, matrices: Array) -> Array:
        """Return `rows` f64 [m, k] times matrices f64 [..., n, k], as by the weights, f64 [m, n]."""
        expert = self.named(inputs).get("expert")
        if expert is None:
            return np.asarray(rows @ matrices.T)
        found = np.zeros((len(rows), matrices.shape[1]))
        for number, matrix in enumerate(matrices):
            mine = expert == number
            found[mine] = rows[mine] @ matrix.T
        return found

    def rows(self, inputs: Sequence[Array]) -> Array:
        """Return the rows of X, f64 [m, k]."""
        x, scale = inputs[0].astype(np.float64), self.named(inputs).get("x_scale")
        return x if scale is None else x * np.repeat(scale.astype(np.float64), self.x_group, axis=1)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The formula in float64, rounded once."""
        with np.errstate(all="ignore"):
            y = self.multiplied(inputs, self.rows(inputs), self.weights(inputs))
        return [y.astype(np.float32)]

    def get_gflop(self) -> float:
        """Two operations per multiply-add."""
        m, n, k = typical_all((self.x.details.plain_dims[0], *self.sizes[1:]))
        return 2.0 * m * n * k / 1e9

    def computation(self) -> Computation:
        """The formula, level by level."""
        return Reduction((self.sizes[2],), "add", 0.0, self._element, lambda total: total)

    def _element(self, reads: Sequence[Read], index: Index, r: Index) -> Expr:
        x, w, scale, zero, *others = reads
        parts = dict(zip(self.part_names, others, strict=True))
        (m, n), (k,) = index, r
        lead: Index = (n,)
        has_expert: Expr | None = None
        if "expert" in parts:
            expert, last = parts["expert"]((m,)), self.experts - 1
            has_expert = t.equal(t.maximum(t.minimum(expert, last), 0), expert)
            lead = t.maximum(t.minimum(expert, last), 0), n
        of_group, low = k // self.group, LOW_BITS[self.bits]
        level = w((*lead, k)) if self.bits == FLOAT_BITS else _bits_at(w, lead, k, low)
        if "high" in parts:
            level = level | _bits_at(parts["high"], lead, k, self.bits - low) << low
        if "book" in parts:
            level = t.cast(parts["book"]((level,)), S64)
        is_uniform = self.zero_point.details.elements == 1
        z = zero((t.ZERO,) * 2 if is_uniform else (*lead, of_group))
        weight, *minimum = self._factors(scale, parts, lead, of_group)
        weight = (t.cast(level, F32) - z) * weight
        if minimum:
            weight = weight + minimum[0]
        row = t.cast(x((m, k)), F32)
        if "x_scale" in parts:
            row = row * parts["x_scale"]((m, k // self.x_group))
        return row * weight if has_expert is None else t.select(has_expert, row * weight, 0.0)

    def _factors(
        self, scale: Read, parts: Mapping[str, Read], lead: Index, of_group: Expr
    ) -> list[Expr]:
        """Return the scale of a group and, where weights have one, its minimum."""
        factors, groups = [scale((*lead, of_group))], self.sizes[2] // self.group
        if "minimum" in parts:
            factors.append(parts["minimum"]((*lead, of_group)))
        elif "block_minimum" in parts:
            both = t.cast(factors[0], S64)
            factors = [both & NIBBLE, both >> 4]
        for i, name in enumerate(("block_scale", "block_minimum")[: len(factors)]):
            factors[i] = t.cast(factors[i], F32)
            if (given := self.part(name)) is not None:
                block = of_group // (groups // int(given.details.plain_dims[-1]))
                factors[i] = factors[i] * t.cast(parts[name]((*lead, block)), F32)
        return factors


def known_zero(values: Array | None) -> int:
    """Return the attribute `zero` for zero points, None if they are not constant: -1 unless all are one level."""
    if values is None or values.size > 1:
        return -1
    value = float(values.item())
    return int(value) if value >= 0 and value.is_integer() else -1


def _divides(count: Size, groups: int, k: int, name: str) -> bool:
    """Return whether `count` blocks of k are whole groups; groups of X may be parts of those of weights too."""
    if not isinstance(count, int) or count < 1 or k % count:
        return False
    return groups % count == 0 or (name == "x_scale" and count % groups == 0)


def _bits_at(words: Read, lead: Index, k: Expr, bits: int) -> Expr:
    """Return level k of row `lead`, in words of levels of `bits` bits."""
    word, number = k // (8 * WORD_BYTES // bits), k % (8 * WORD_BYTES // bits)
    byte = t.cast(words((*lead, word * WORD_BYTES + number % WORD_BYTES)), S64)
    return byte >> number // WORD_BYTES * bits & (1 << bits) - 1
