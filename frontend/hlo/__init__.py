"""XLA HLO text: syntax tree, data-flow graph, import and export."""

from __future__ import annotations

from .ast_json import to_ast
from .dataflow import to_dfg
from .importer import import_hlo, load_hlo
from .parser import parse_hlo
from .serialized import read_module
from .writer import write_hlo

__all__ = ["import_hlo", "load_hlo", "parse_hlo", "read_module", "to_ast", "to_dfg", "write_hlo"]
