"""cached_attention: causal attention of new tokens to the keys and values of a sequence so far, which heads share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from ...base.dtypes import BF16, F16, F32, S8, S64
from ...base.records import dataclass
from ..ir.attributes import FloatAttr, IntAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand, OptionalOperand
from ..ir.registry import register

CACHE_DTYPES = (F32, F16, BF16, S8)
"""Dtypes of keys and values; those of S8 have scales."""


@dataclass(frozen=True)
class SequenceAttention:
    """One sequence in float64: q [tokens, heads, key size], keys and values [heads, keys, size] of each head, and
    powers [heads, tokens, keys], whose sums are 1."""

    q: Array
    keys: Array
    values: Array
    powers: Array


@register("cached_attention")
class CachedAttention(Op):
    """y[b, t, h] = softmax(scale * q[b, t, h] @ K.T) @ V, of the keys that the query sees; heads share them.

    The new tokens are the last of a sequence: the query of new token t is at position lengths[b] - tokens + t, and sees
    the keys up to its own, of these the last `window` where that is not 0. Scores are limited to cap * tanh(x / cap)
    where `cap` is not 0.
    """

    kind: ClassVar[str] = "loop"

    q = Operand("f32 [batch, tokens, heads, key size]")
    keys = Operand(
        "f32, f16, bf16 or s8 [batch, kv_heads, room, key size]: the first `lengths` of each sequence count"
    )
    values = Operand("the type of keys, [batch, kv_heads, room, value size]")
    lengths = Operand("s64 [batch]: keys of each sequence, those of the new tokens among them")
    key_scale = OptionalOperand(
        "f32 [batch, kv_heads, room, groups]: factors of groups of a key, for s8"
    )
    value_scale = OptionalOperand("f32 [batch, kv_heads, room, groups]: those of values")
    scale = FloatAttr("factor of scores", default=1.0)
    cap = FloatAttr("limit of scores; 0: none", default=0.0)
    window = IntAttr(
        "keys that a query sees at most, its own among them; 0: all", default=0, least=0
    )

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """f32 [batch, tokens, heads, value size]."""
        q, keys, values, lengths, *scales = inputs
        shown = ", ".join(map(str, inputs))
        if q.dtype != F32 or keys.dtype not in CACHE_DTYPES or values.dtype != keys.dtype:
            rule = "q must be f32, keys and values of one type of f32, f16, bf16 and s8"
            raise self.rule(rule, shown)
        if {q.rank, keys.rank, values.rank} != {4} or lengths.dtype != S64 or lengths.rank != 1:
            raise self.rule("q, keys and values must have 4 axes, lengths be s64 [batch]", shown)
        batch, tokens, heads, size = q.plain_dims
        own = keys.plain_dims[1]
        if (
            keys.plain_dims != (batch, own, keys.plain_dims[2], size)
            or values.plain_dims[:3] != keys.plain_dims[:3]
        ):
            raise self.rule("the sizes of q, keys and values must agree", shown)
        if lengths.plain_dims != (batch,):
            raise self.rule("there must be a length for each sequence", shown)
        sizes = heads, own, size, values.plain_dims[3]
        if not all(isinstance(one, int) and one > 0 for one in sizes) or heads % own:
            rule = "heads must be a multiple of those of keys, and sizes of heads positive numbers"
            raise self.rule(rule, shown)
        self._check_scales(keys, values, scales, shown)
        return [LogicalTensor(F32, (batch, tokens, heads, values.plain_dims[3]))]

    def _check_scales(
        self, keys: LogicalTensor, values: LogicalTensor, scales: list[LogicalTensor], shown: str
    ) -> None:
        """Raise UserError unless s8, and nothing else, has a scale for each group of each row."""
        if len(scales) != (2 if keys.dtype == S8 else 0):
            raise self.rule("keys and values of s8, and no others, must have scales", shown)
        for whole, scale in zip((keys, values), scales, strict=False):
            groups = scale.plain_dims[-1] if scale.rank == 4 else 0
            is_whole = isinstance(groups, int) and groups > 0 and whole.plain_dims[3] % groups == 0
            if scale.dtype != F32 or not is_whole or scale.plain_dims[:3] != whole.plain_dims[:3]:
                rule = "scales must be f32 [batch, kv_heads, room, groups], with groups of one size"
                raise self.rule(rule, shown)

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Sequence by sequence in float64."""
        y = np.zeros((*inputs[0].shape[:3], inputs[2].shape[3]), np.float32)
        for b, one in enumerate(self.sequences(inputs)):
            with np.errstate(all="ignore"):
                y[b] = np.einsum("hts,hsd->thd", one.powers, one.values)
        return [y]

    def sequences(self, inputs: list[Array]) -> Iterator[SequenceAttention]:
        """Yield the operands of each sequence in float64, with the share of each key."""
        q, keys, values, lengths, *scales = inputs
        wide = [x.astype(np.float64) for x in (keys, values)]
        for i, factor in enumerate(scales):
            wide[i] *= np.repeat(factor.astype(np.float64), wide[i].shape[3] // factor.shape[3], 3)
        tokens, heads = q.shape[1:3]
        shared = [x.repeat(heads // x.shape[1], 1) for x in wide]
        for b, length in enumerate(np.minimum(lengths, keys.shape[2])):
            rows, (k, v) = q[b].astype(np.float64), (x[b, :, : max(length, 0)] for x in shared)
            with np.errstate(all="ignore"):
                scores = np.einsum("thd,hsd->hts", rows, k) * self.scale
                if self.cap:
                    scores = self.cap * np.tanh(scores / self.cap)
                own = np.arange(length - tokens, length)[:, None]
                seen = np.arange(k.shape[1]) <= own
                if self.window:
                    seen &= np.arange(k.shape[1]) > own - self.window
                scores = np.where(seen, scores, -np.inf)
                powers = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
                powers /= powers.sum(-1, keepdims=True)
            yield SequenceAttention(rows, k, v, powers)

    def get_gflop(self) -> float:
        """Two operations per multiply-add of scores and of results."""
        q, _, values = (x.details.typical for x in self.inputs[:3])
        (batch, tokens, heads, size), (*_, room, width) = q.plain_dims, values.plain_dims
        return 2e-9 * int(batch * tokens * heads * room * (size + width))
