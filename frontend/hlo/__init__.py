"""XLA HLO text: syntax tree, data-flow graph, import and export."""

from __future__ import annotations

from .parser import parse_hlo

__all__ = ["parse_hlo"]
