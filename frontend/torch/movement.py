"""Operators of ATen that move elements, and functions of Python under other names."""

from __future__ import annotations

from ..torch_calls.op_table import CALLS
from .node import Read

_SPLITS = ("split_with_sizes", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk")

HANDLERS: dict[str, Read] = dict.fromkeys(_SPLITS, CALLS["split"].run)
"""Operators of this family."""
