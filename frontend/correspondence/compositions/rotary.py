"""Rotary position embedding: pairs of elements rotated by angles that grow with the position."""

from __future__ import annotations

from ....base.dims import Size
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder


def rotary(
    node: OpBuilder, x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False
) -> Tensor:
    """Rotate the first elements of each head of x [B, L, heads, size]; cos and sin are [B or 1, L, rotated / 2].

    A pair is two halves apart, or two neighbors where they are interleaved; elements beyond `rotated` stay.
    """
    batch, length, heads, size = x.details.plain_dims
    rotated = 2 * cos.details.plain_dims[-1]
    if rotated > size or rotated < 2:
        raise node.rule(f"cos and sin must be of at most {size} / 2 angles", str(cos.details))
    cos, sin = (node.reshaped(a, _per_head(a)) for a in (cos, sin))
    part = node.sliced(x, 3, 0, rotated)
    pairs = (rotated // 2, 2) if interleaved else (2, rotated // 2)
    axis = 4 if interleaved else 3
    apart = node.reshaped(part, (batch, length, heads, *pairs))
    whole = (batch, length, heads, rotated // 2)
    a, b = (node.reshaped(node.sliced(apart, axis, i, 1), whole) for i in range(2))
    first = node.helper("sub", node.helper("mul", a, cos), node.helper("mul", b, sin))
    second = node.helper("add", node.helper("mul", a, sin), node.helper("mul", b, cos))
    if interleaved:
        first, second = (node.reshaped(y, (*whole, 1)) for y in (first, second))
        both = node.helper("concat", first, second, axis=4)
        parts = [node.reshaped(both, (batch, length, heads, rotated))]
    else:
        parts = [first, second]
    if rotated < size:
        parts.append(node.sliced(x, 3, rotated, size - rotated))
    return parts[0] if len(parts) == 1 else node.helper("concat", *parts, axis=3)


def _per_head(angles: Tensor) -> tuple[Size, ...]:
    batch, length, count = angles.details.plain_dims
    return batch, length, 1, count
