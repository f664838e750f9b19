"""com.microsoft: MultiHeadAttention, and (Q)Attention, which includes the matmul that computes Q, K and V."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dims import Size
from ...base.dtypes import BOOL, F32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.attention import split_heads
from ..correspondence.compositions.contraction import matmul
from ..correspondence.compositions.heads import Mix, mixed
from ..correspondence.compositions.indexing import positions
from ..op_builder import Value, like
from .heads import head_count, scale_of
from .quantize import integers_of, per_column, shaped
from .scope import Handler, NodeContext


def _multi_head(node: NodeContext) -> list[Value]:
    """Q, K and V come apart, K with V, or all in one; keys and values of 4 axes are not projected again."""
    for index, what in ((8, "past_sequence_length"), (9, "cache_indirection")):
        if node.has(index):
            raise node.unsupported(what)
    heads = head_count(node, "num_heads")
    q, k, v = _projected(node, heads)
    pasts = [node.tensor(6 + i) if node.has(6 + i) else None for i in range(2)]
    return _with_past(node, q, [k, v], pasts, 4, 5)


def _projected(node: NodeContext, heads: int) -> list[GraphTensor]:
    """Q, K and V with 4 axes, [B, heads, length, size], and their biases added."""
    given = [node.tensor(i) for i in range(3) if node.has(i)]
    if given[0].details.rank == 5:  # [B, L, heads, 3, size]
        given = _unstacked(node, given[0], 3)
    elif len(given) > 1 and given[1].details.rank == 5:
        given = [given[0], *_unstacked(node, given[1], 2)]
    if len(given) != 3:
        raise node.rule("key and value must be given, or packed with query", f"{len(given)} inputs")
    found, at = [], 0
    for x in given:
        if x.details.rank == 3:
            width = x.details.plain_dims[2]
            if node.has(3):
                x = node.helper("add", x, node.sliced(node.tensor(3), 0, at, width))
            at, x = at + width, split_heads(node, x, heads)
        found.append(x)
    return found


def _unstacked(node: NodeContext, x: GraphTensor, count: int) -> list[GraphTensor]:
    """[B, L, heads * size] for each of `count` parts of [B, L, heads, count, size]."""
    batch, length, heads, parts, size = x.details.plain_dims
    if parts != count:
        raise node.rule(f"axis 3 of what is packed must be {count}", str(x.details))
    shape = (batch, length, heads * size)
    return [node.reshaped(node.sliced(x, 3, i, 1), shape) for i in range(count)]


def _attention(node: NodeContext) -> list[Value]:
    """The input times one matrix gives Q, K and V; the cache is both halves of one tensor."""
    if node.has(6) or node.attr_int("do_rotary", 0):
        raise node.unsupported("past_sequence_length" if node.has(6) else "do_rotary")
    whole = node.helper("matmul_core", node.tensor(0), node.tensor(1))
    whole = node.helper("add", whole, node.tensor(2)) if node.has(2) else whole
    return _of_whole(node, whole, past=4, mask=3, bias=5)


def _quantized_attention(node: NodeContext) -> list[Value]:
    """Attention whose first matmul is on integers and scaled to f32; the rest is f32."""
    if node.attr_int("do_rotary", 0):
        raise node.unsupported("do_rotary")
    a = integers_of(node, 0, shaped(node, 6, ()) if node.has(6) else None)
    b = integers_of(node, 1, per_column(node, 7) if node.has(7) else None)
    scale = node.helper("mul", shaped(node, 3, ()), per_column(node, 4))
    whole = node.helper("mul", node.converted(matmul(node, a, b), F32), scale)
    whole = node.helper("add", whole, node.tensor(2))
    return _of_whole(node, whole, past=8, mask=5, bias=None)


def _of_whole(
    node: NodeContext, whole: GraphTensor, past: int, mask: int, bias: int | None
) -> list[Value]:
    """Attention of concatenated Q, K and V; `past`, `mask` and `bias` are indices of inputs."""
    heads = head_count(node, "num_heads")
    width = whole.details.plain_dims[2]
    sizes = node.attr_ints("qkv_hidden_sizes", None) or (width // 3,) * 3
    if len(sizes) != 3 or sum(sizes) != width:
        raise node.rule("sizes of Q, K and V must add up to the width", f"{sizes} and {width}")
    starts = (0, sizes[0], sizes[0] + sizes[1])
    q, k, v = (
        split_heads(node, node.sliced(whole, 2, start, size), heads)
        for start, size in zip(starts, sizes, strict=True)
    )
    pasts = _halves(node, node.tensor(past)) if node.has(past) else [None, None]
    y, *present = _with_past(node, q, [k, v], pasts, mask, bias)
    if not node.wants(1):
        return [y]
    stacked = [node.reshaped(node.scope.as_tensor(x), (1, *_dims(x))) for x in present]
    return [y, node.helper("concat", *stacked, axis=0)]


def _dims(value: Value) -> tuple[Any, ...]:
    assert isinstance(value, GraphTensor)
    return value.details.plain_dims


def _halves(node: NodeContext, past: GraphTensor) -> list[GraphTensor | None]:
    dims = past.details.plain_dims
    if dims[:1] != (2,):
        raise node.rule("past must hold keys and values on its first axis", str(past.details))
    return [node.reshaped(node.sliced(past, 0, i, 1), dims[1:]) for i in range(2)]


def _with_past(
    node: NodeContext,
    q: GraphTensor,
    keys: Sequence[GraphTensor],
    pasts: Sequence[GraphTensor | None],
    mask: int,
    bias: int | None,
) -> list[Value]:
    """Attention over past and new keys; `mask` and `bias` are indices of inputs. The result, keys and values."""
    present = [
        x if past is None else node.helper("concat", past, x, axis=2)
        for past, x in zip(pasts, keys, strict=True)
    ]
    past_length = 0 if pasts[0] is None else pasts[0].details.plain_dims[2]
    queries, total = q.details.plain_dims[2], present[0].details.plain_dims[2]
    masks: list[GraphTensor] = []
    if node.has(mask):
        masks.append(_padding(node, node.tensor(mask), q, total))
    if bias is not None and node.has(bias):
        masks.append(node.tensor(bias))
    if node.attr_int("unidirectional", 0) and queries != 1:
        masks.append(_causal(node, past_length, queries, total))
    y = mixed(node, q, present[0], present[1], Mix(masks, scale_of(node)))
    return [y, *present]


def _causal(node: NodeContext, past: Size, queries: Size, keys: Size) -> GraphTensor:
    own = positions(node, queries, 2, 4, past)
    return node.helper("le", positions(node, keys, 3, 4), own)


def _padding(node: NodeContext, mask: GraphTensor, q: GraphTensor, total: Size) -> GraphTensor:
    """Return the mask that is added to scores: a large negative number for keys of padding.

    The mask is the number of keys that count [B], or 1 for keys that count: [B, keys], [B, queries, keys] and, for
    complete masks, [B, 1, queries, keys].
    """
    batch = q.details.plain_dims[0]
    dims = mask.details.plain_dims
    if dims == (batch,):
        lengths = node.reshaped(node.converted(mask, S64), (batch, 1, 1, 1))
        kept = node.helper("lt", positions(node, total, 3, 4), lengths)
    elif len(dims) in (2, 3, 4) and dims[0] == batch and dims[-1] == total:
        shape = (batch, *(1,) * (4 - len(dims)), *dims[1:])
        kept = node.converted(node.reshaped(mask, shape), BOOL)
    else:
        raise node.rule(
            f"the mask must be [{batch}], or [{batch},{total}] or with axes between them",
            str(mask.details),
        )
    filler = node.attr_float("mask_filter_value", -10000.0)
    return node.helper("select", kept, like(node, 0, q), like(node, filler, q))


HANDLERS: dict[str, Handler] = {
    "com.microsoft::MultiHeadAttention": _multi_head,
    "com.microsoft::Attention": _attention,
    "com.microsoft::QAttention": _quantized_attention,
}
