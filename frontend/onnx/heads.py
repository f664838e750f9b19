"""Attributes that all attention nodes share."""

from __future__ import annotations

from .scope import NodeContext


def scale_of(node: NodeContext) -> float | None:
    """The factor of scores that a node gives; 0 stands for the usual one."""
    return node.attr_float("scale", 0.0) or None


def head_count(node: NodeContext, name: str) -> int:
    """A number of heads. Raise UserError unless it is positive."""
    count = node.attr_int(name)
    if count < 1:
        raise node.rule(f"{name} must be positive", str(count))
    return count
