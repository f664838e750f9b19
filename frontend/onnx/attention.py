"""Attention, with grouped heads, caches, masks and windows: two matmuls and the softmax between them."""

from __future__ import annotations

import math

from ...base.dtypes import BOOL, S64
from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import joined_heads, masked, scores_of, split_heads
from ..correspondence.compositions.heads import Sizes, capped
from ..correspondence.compositions.indexing import positions
from ..correspondence.reading import Pair
from ..op_builder import OpBuilder, Value
from .scope import NodeContext
from .tensors import to_dtype


@dataclass(frozen=True)
class _Masks:
    """The attention mask: `allowed` are bool, `added` is a float; `dynamic_rows`: every query sees at least one key."""

    allowed: list[GraphTensor]
    added: GraphTensor | None
    dynamic_rows: bool


def _heads_first(node: NodeContext, index: int, attribute: str) -> GraphTensor:
    """[batch, heads, length, size] of that or of [batch, length, heads * size]."""
    x = node.tensor(index)
    if x.details.rank == 4:
        return x
    heads = node.attr_int(attribute)
    if x.details.rank != 3 or heads < 1 or x.details.plain_dims[2] % heads:
        raise node.rule(f"inputs must have 4 axes, or 3 and {attribute} heads", str(x.details))
    return split_heads(node, x, heads)


def _read_attention(node: NodeContext, _: str) -> list[Value]:
    dtype = node.details(0).dtype
    q = _heads_first(node, 0, "q_num_heads")
    keys = [_heads_first(node, i, "kv_num_heads") for i in (1, 2)]
    past = 0
    if node.has(4) != node.has(5):
        raise node.rule("past_key and past_value must be given together", "one of them")
    if node.has(4):
        past = node.details(4).plain_dims[2]
        keys = [node.helper("concat", node.tensor(4 + i), x, axis=2) for i, x in enumerate(keys)]
    sizes = _checked(node, q, keys, past)
    wide = dtype.accumulator
    rows = [sizes.grouped(node, node.converted(x, wide)) for x in (q, *keys)]
    scale = node.attr_float("scale") if node.given("scale") else None
    scores = scores_of(node, rows[0], rows[1], scale)
    stages = [scores, capped(node, scores, node.attr_float("softcap"))]
    masks = _masks(node, sizes)
    stages.append(_masked(node, sizes, stages[1], masks))
    weights = _softmax(node, stages[2])
    y = node.make("matmul_core", weights, rows[2])
    if not masks.dynamic_rows:
        seen, zero = _any_key(node, sizes, masks), node.constant(0, wide)
        y = node.helper("select", seen, y, zero)
        weights = node.helper("select", seen, weights, zero) if node.wants(3) else weights
    y = node.reshaped(
        node.converted(y, dtype),
        (sizes.batch, sizes.heads, sizes.queries, y.details.plain_dims[-1]),
    )
    if node.details(0).rank == 3:
        y = joined_heads(node, y)
    shown = [_shown(node, sizes, [*stages, weights])] if node.wants(3) else []
    return [y, *keys, *shown]


def _checked(node: NodeContext, q: GraphTensor, keys: list[GraphTensor], past: int) -> Sizes:
    """The common sizes. Raise UserError if queries, keys and values do not match."""
    (batch, heads, queries, width), k, v = (x.details.plain_dims for x in (q, *keys))
    fits = (k[0], k[3]) == (batch, width) and v[:3] == k[:3]
    if not fits or k[1] < 1 or heads % k[1] or not q.details.elements or not k[2]:
        raise node.rule(
            "Q, K and V must have one batch, Q and K one head size, and K's heads divide Q's",
            f"{q.details}, {keys[0].details} and {keys[1].details}",
        )
    return Sizes(batch, heads, k[1], queries, past, k[2])


def _masks(node: NodeContext, sizes: Sizes) -> _Masks:
    allowed, added, is_dynamic = [], None, True
    left, right = node.attr_int("left_window_size"), node.attr_int("right_window_size")
    if node.attr_int("is_causal"):
        right = 0 if right < 0 else min(right, 0)
    if node.has(6):
        allowed = _external_cache(node, sizes, left, right)
        is_dynamic = False
    elif left >= 0 or right >= 0:
        own = positions(node, sizes.queries, 2, 4, sizes.past)
        allowed = _window(node, own, positions(node, sizes.keys, 3, 4), left, right)
        # Else a window before the first key may hide all of them.
        is_dynamic = left < 0 or sizes.past + sizes.queries == sizes.keys
    if node.has(3):
        is_dynamic = False
        mask = _given_mask(node, sizes)
        if mask.details.dtype == BOOL:
            allowed = [*allowed, mask]
        else:
            added = mask
    return _Masks(allowed, added, is_dynamic)


def _window(
    node: NodeContext, own: GraphTensor, position: GraphTensor, left: int, right: int
) -> list[GraphTensor]:
    """Return whether each query sees a key: from `left` before its own position to `right` after it, -1 for all."""
    found = []
    if left >= 0:
        first = node.helper("sub", own, node.constant(left, S64))
        found.append(node.helper("ge", position, first))
    if right >= 0:
        last = node.helper("add", own, node.constant(right, S64))
        found.append(node.helper("le", position, last))
    return found


def _external_cache(node: NodeContext, sizes: Sizes, left: int, right: int) -> list[GraphTensor]:
    """Keys that count in each batch are the first ones, and the last of them belong to the queries."""
    if node.details(6).plain_dims != (sizes.batch,):
        raise node.rule(f"nonpad_kv_seqlen must have shape [{sizes.batch}]", str(node.details(6)))
    lengths = node.reshaped(node.converted(node.tensor(6), S64), (sizes.batch, 1, 1, 1))
    position = positions(node, sizes.keys, 3, 4)
    from_end = positions(node, sizes.queries, 2, 4, -sizes.queries)
    own = node.helper("add", lengths, from_end)
    return [node.helper("lt", position, lengths), *_window(node, own, position, left, right)]


def _given_mask(node: NodeContext, sizes: Sizes) -> GraphTensor:
    """The mask with 4 axes; keys beyond its end are excluded."""
    mask = node.tensor(3)
    dims = mask.details.plain_dims
    if not 1 <= len(dims) <= 4 or dims[-1] > sizes.keys:
        raise node.rule(f"attn_mask must broadcast to {sizes.keys} keys", str(mask.details))
    mask = node.reshaped(mask, (*(1,) * (4 - len(dims)), *dims))
    missing = sizes.keys - dims[-1]
    if missing:
        value = 0 if mask.details.dtype == BOOL else -math.inf
        mask = node.helper("pad", mask, before=(0,) * 4, after=(0, 0, 0, missing), value=value)
    return mask


def _masked(node: NodeContext, sizes: Sizes, scores: GraphTensor, masks: _Masks) -> GraphTensor:
    added = [] if masks.added is None else [masks.added]
    for mask in (*added, *masks.allowed):
        scores = masked(node, scores, sizes.grouped(node, mask))
    return scores


def _softmax(node: NodeContext, scores: GraphTensor) -> GraphTensor:
    """Apply softmax in the given precision if that is wider."""
    dtype = scores.details.dtype
    wide, given = dtype, node.attr_int("softmax_precision", 0)
    if given:
        wanted = to_dtype(f"Attention '{node.name}'", given)
        wide = wanted if wanted.bits > dtype.bits else dtype
    weights = node.helper("softmax", node.converted(scores, wide), axis=-1)
    return node.converted(weights, dtype)


def _any_key(build: OpBuilder, sizes: Sizes, masks: _Masks) -> GraphTensor:
    """Return whether each query sees a key: a row without one would be NaN and becomes 0."""
    every = list(masks.allowed)
    if masks.added is not None:
        nothing = build.constant(-math.inf, masks.added.details.dtype)
        every.append(build.helper("ne", masks.added, nothing))
    whole = every[0]
    for part in every[1:]:
        whole = build.helper("and", whole, part)
    return sizes.grouped(build, build.helper("reduce_any", whole, axes=(3,), keep_dims=True))


def _shown(node: NodeContext, sizes: Sizes, stages: list[GraphTensor]) -> GraphTensor:
    """The scores at the stage returned as the fourth output."""
    mode = node.attr_int("qk_matmul_output_mode")
    if not 0 <= mode < len(stages):
        raise node.rule("qk_matmul_output_mode must be 0 to 3", str(mode))
    shape = (sizes.batch, sizes.heads, sizes.queries, sizes.keys)
    return node.reshaped(node.converted(stages[mode], node.details(0).dtype), shape)


PAIRS = {"attention": Pair(_read_attention)}
