"""Attributes and types with numbers for the dynamic sizes in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...base.dims import Dim, Size, substitute
from .logical_tensor import LogicalTensor


def known(value: Any, sizes: Mapping[str, Size]) -> Any:
    """An attribute or a type with numbers, or other sizes, for the sizes that have one, by name; others stay."""
    if not sizes:
        return value
    if isinstance(value, Dim):
        return substitute(value, sizes)
    if isinstance(value, LogicalTensor):
        return replace(value, plain_dims=known(value.plain_dims, sizes))
    if hasattr(value, "at_sizes"):
        return value.at_sizes(sizes)
    if isinstance(value, (tuple, list)):
        return type(value)(known(one, sizes) for one in value)
    return value
