"""Turn `vector` loops into vector statements.

before   for j in vector(0, 16): c[j] = a[j]
after    for j in range(0, 16): c[j] = a[j]
Ensures: no `vector` loops.
"""

from __future__ import annotations

from dataclasses import replace

from ...target import Target
from ..nodes import For, Module, Stmt
from ..visitor import Rewriter, map_functions


def vectorize(module: Module, target: Target) -> Module:
    """Run vector loops one element at a time."""
    return map_functions(module, _Serial().function)


class _Serial(Rewriter):
    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        new = super().for_(s)
        return replace(new, kind="serial") if isinstance(new, For) and new.kind == "vector" else new
