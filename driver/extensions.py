"""What user code adds to the compiler: ops, passes, lowerings, layouts.

Hashes of graphs, options and the compiler's sources do not cover the meaning of such code. A model that depends on it
is therefore compiled anew; only its kernels are cached, because their Tensor IR says all that they mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ..graph_ir.ir.graph import Graph, subgraphs_of
from ..graph_ir.ir.op import Op
from ..graph_ir.lowering.registry import LOWERINGS
from ..graph_ir.passes.pipeline import PIPELINE
from ..graph_ir.schedule.query_format import RULES

_OURS = __name__.partition(".")[0]
_FIXED = (_OURS, "numpy", "math", "operator", "builtins")
"""Packages whose functions mean the same as long as versions, or the compiler's sources, are the same."""


def compiler_is_extended() -> bool:
    """Whether a pass, a lowering or a layout rule comes from user code: then every model may depend on it."""
    functions = (*(step for step, _ in PIPELINE), *LOWERINGS.values(), *RULES.values())
    return any(map(_is_foreign, functions))


def uses_foreign_ops(graph: Graph) -> bool:
    """Whether an op of the graph, or of a subgraph, is defined in user code."""
    return any(is_foreign_op(type(op)) for op in _all_ops(graph))


def _all_ops(graph: Graph) -> Iterator[Op]:
    pending = [graph]
    while pending:
        for op in pending.pop().ops:
            yield op
            pending.extend(subgraphs_of(op))


def is_foreign_op(cls: type[Op]) -> bool:
    """Whether an op, or a function it is made of, is defined outside graphc."""
    row = getattr(cls, "row", None)  # elementwise ops are classes made of a row's functions
    functions = () if row is None else (row.element, row.reference)
    return any(map(_is_foreign, (cls, *functions)))


def _is_foreign(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    module = getattr(function, "__module__", None) or type(function).__module__
    return module.partition(".")[0] not in _FIXED
