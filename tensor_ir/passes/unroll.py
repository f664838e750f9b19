"""Copy the bodies of `unrolled` loops, the variable replaced by its values.

before   for i in unrolled(0, 3): c[i] = 0.0
after    c[0] = 0.0; c[1] = 0.0; c[2] = 0.0
Requires: bounds that are constants. Ensures: no `unrolled` loops; copies bind fresh names.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...base.errors import InternalError
from ...targets.isa import Target
from ..builder import binary, const
from ..names import Names
from ..nodes import Binary, Block, Const, Expr, For, Function, Module, Stmt
from ..substitution import RenamedCopy
from ..visitor import Rewriter, bound_names, map_functions, walk_statements


def unroll(module: Module, target: Target) -> Module:
    """Unroll in every function."""
    return map_functions(module, _unroll_function)


def _unroll_function(function: Function) -> Function:
    if not any(isinstance(s, For) and s.kind == "unrolled" for s in walk_statements(function.body)):
        return function
    return _Unroller(Names(bound_names(function))).function(function)


class _FoldingCopy(RenamedCopy):
    """A copy in which index arithmetic on the substituted values is folded at once."""

    def binary(self, e: Binary) -> Expr:
        left, right = self.expr(e.left), self.expr(e.right)
        return e if left is e.left and right is e.right else binary(e.op, left, right)


class _Unroller(Rewriter):
    def __init__(self, names: Names) -> None:
        self.names = names

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        if s.kind != "unrolled":
            return super().for_(s)
        if not isinstance(s.begin, Const) or not isinstance(s.end, Const):
            raise InternalError(f"loop '{s.var.name}': an unrolled loop takes constant bounds")
        return tuple(self._copies(s, range(int(s.begin.value), int(s.end.value), s.step)))

    def _copies(self, s: For, values: range) -> Iterator[Stmt]:
        body = self.body(s.body)  # inner loops first: their copies are copied along
        for value in values:
            copy = _FoldingCopy(self.names, {s.var.name: const(value)}).body(body)
            if isinstance(copy, Block):
                yield from copy.body
            else:
                yield copy
