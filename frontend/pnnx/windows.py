"""Shared by operators that slide a window over an image: one number per axis, images without a batch axis."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor
from .scope import Node


def per_axis(node: Node, name: str, spatial: int, default: int | None) -> tuple[int, ...]:
    """`spatial` integers; one counts for every axis. Without a default they must be given."""
    values = [default] if default is not None and not node.given(name) else node.attr_ints(name)
    values = values * spatial if len(values) == 1 else values
    if len(values) != spatial:
        raise node.rule(f"'{name}' must have one entry for each of {spatial} axes", str(values))
    return tuple(values)


def with_batch(node: Node, x: GraphTensor, spatial: int) -> tuple[GraphTensor, bool]:
    """x [N, C, sizes...], and whether it came as [C, sizes...]."""
    rank = x.details.rank
    if rank not in (spatial + 1, spatial + 2):
        raise node.rule(f"the input must have {spatial + 1} or {spatial + 2} axes", str(x.details))
    if rank == spatial + 2:
        return x, False
    return node.reshaped(x, (1, *x.details.plain_dims)), True
