"""Attention of grouped heads: queries share keys and values, scores are capped and masked, softmax has sinks."""

from __future__ import annotations

from collections.abc import Sequence

from ....base.dims import Size
from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor
from ...op_builder import OpBuilder
from .attention import joined_heads, masked, scores_of


@dataclass(frozen=True)
class Sizes:
    """`past` keys come from a cache that is an input; `keys` is the total."""

    batch: Size
    heads: int
    kv_heads: int
    queries: Size
    past: Size
    keys: Size

    def grouped(self, build: OpBuilder, x: GraphTensor) -> GraphTensor:
        """[B or 1, H or 1, ...] as [.., kv heads, heads of a group, ...]; unchanged if there are no groups."""
        batch, heads, *rest = x.details.plain_dims
        if self.heads == self.kv_heads:
            return x
        size = self.heads // self.kv_heads if heads == self.heads else 1
        return build.reshaped(x, (batch, heads // size, size, *rest))


@dataclass(frozen=True)
class Mix:
    """Steps applied to the scores: times `scale` (None: 1 / sqrt(size)), capped, added to, masked, softmax.

    `sinks` are logits [1, heads, 1, 1] of a key that every query sees and whose value is zero.
    """

    masks: Sequence[GraphTensor]
    scale: float | None
    cap: float = 0.0
    sinks: GraphTensor | None = None
    added: Sequence[GraphTensor] = ()


def mixed(node: OpBuilder, q: GraphTensor, k: GraphTensor, v: GraphTensor, mix: Mix) -> GraphTensor:
    """[B, queries, heads * size] of q [B, heads, queries, size], k and v with heads that divide q's."""
    return mixed_parts(node, q, k, v, mix)[0]


def mixed_parts(
    node: OpBuilder, q: GraphTensor, k: GraphTensor, v: GraphTensor, mix: Mix
) -> tuple[GraphTensor, GraphTensor, GraphTensor]:
    """Return the same, the scores before they are masked, and the softmax, [B, heads, queries, keys] both."""
    batch, heads, queries = q.details.plain_dims[:3]
    sizes = Sizes(batch, heads, k.details.plain_dims[1], queries, 0, k.details.plain_dims[2])
    rows = [sizes.grouped(node, x) for x in (q, k, v)]
    scores = capped(node, scores_of(node, rows[0], rows[1], mix.scale), mix.cap)
    for bias in mix.added:
        scores = masked(node, scores, sizes.grouped(node, bias))
    plain = scores
    for mask in mix.masks:
        scores = masked(node, scores, sizes.grouped(node, mask))
    if mix.sinks is None:
        weights = node.helper("softmax", scores, axis=-1)
    else:
        weights = _softmax_with(node, scores, sizes.grouped(node, mix.sinks))
    y = node.make("matmul_core", weights, rows[2])
    whole = (batch, heads, queries)
    y = joined_heads(node, node.reshaped(y, (*whole, v.details.plain_dims[3])))
    plain, weights = (node.reshaped(x, (*whole, sizes.keys)) for x in (plain, weights))
    return y, plain, weights


def _softmax_with(node: OpBuilder, scores: GraphTensor, sinks: GraphTensor) -> GraphTensor:
    """The softmax of rows that have one more element each, without it."""
    last = {"axes": (scores.details.rank - 1,), "keep_dims": True}
    most = node.helper("max", node.helper("reduce_max", scores, **last), sinks)
    parts = node.helper("exp", node.helper("sub", scores, most))
    extra = node.helper("exp", node.helper("sub", sinks, most))
    total = node.helper("add", node.helper("reduce_sum", parts, **last), extra)
    return node.helper("div", parts, total)


def capped(node: OpBuilder, scores: GraphTensor, cap: float) -> GraphTensor:
    """cap * tanh(scores / cap); the scores themselves for 0."""
    if not cap:
        return scores
    most = node.constant(cap, scores.details.dtype)
    return node.helper("mul", most, node.helper("tanh", node.helper("div", scores, most)))
