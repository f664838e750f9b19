"""The same program without two-dimensional registers, for processes that may not use them: the same operands in the
same layouts, multiplied in vectors.

before   brgemm(C, A, B, m=128, tile_rows=16, k_group=4, multiply=tdpbusd)
after    brgemm(C, A, B, m=128, tile_rows=11, k_group=4)
"""

from __future__ import annotations

from dataclasses import replace

from ..base.errors import InternalError
from ..targets.isa import Target
from . import builder as t
from .names import Names
from .nodes import Block, Brgemm, Expr, For, Function, Let, Module, Slice, Stmt, Var
from .substitution import substitute_expr
from .visitor import Rewriter, bound_names, walk_statements


def uses_tiles(function: Function) -> bool:
    """Return whether a function multiplies two-dimensional registers."""
    return any(isinstance(s, Brgemm) and s.multiply for s in walk_statements(function.body))


def without_tiles(module: Module, target: Target) -> Module:
    """Return the module with vectors in place of two-dimensional registers."""
    functions = [
        _Vectors(target, Names(bound_names(f))).function(f) if uses_tiles(f) else f
        for f in module.functions
    ]
    return replace(module, functions=tuple(functions))


class _Vectors(Rewriter):
    def __init__(self, target: Target, names: Names) -> None:
        self.target = target
        self.names = names

    def brgemm(self, s: Brgemm) -> Stmt | tuple[Stmt, ...]:
        if not s.multiply:
            return s
        rows = self._height(s)
        if s.a.tile and isinstance(s.tile_rows, int):
            tile = Var(self.names.fresh("tile"))
            body = replace(_part(s, tile, s.tile_rows), tile_rows=rows)
            return For(tile, t.ZERO, t.as_expr(s.m), body, "serial", s.tile_rows)
        if isinstance(s.m, int):
            return replace(s, multiply="", tile_rows=rows)
        at, rest = Var(self.names.fresh("at")), Var(self.names.fresh("rest"))
        whole = Var(self.names.fresh("whole"))
        full = t.as_expr(s.m) // rows * rows
        return Block(
            (
                Let(whole, full),
                For(at, t.ZERO, whole, _part(s, at, rows), "serial", rows),
                For(rest, whole, s.m, _part(s, rest, 1)),
            )
        )

    def _height(self, s: Brgemm) -> int:
        """The rows of the best register tile for the panels of B."""
        types = s.a.buffer.dtype, s.b.buffer.dtype
        vectors = -(-s.n_padded // self.target.lanes(s.accumulator))
        for row in self.target.table.microkernels:
            if (row.a, row.b) == types and row.k_group == s.k_group and not row.uses_tiles:
                return max((x.rows for x in row.tiles if x.vectors == vectors), default=4)
        raise InternalError(f"no instruction on vectors does what {s.multiply} does")


def _part(s: Brgemm, first: Expr, rows: int) -> Brgemm:
    """`rows` rows of a GEMM from row `first` on, which is the first of a tile if tiles of A are apart."""
    epilogue = s.epilogue
    if epilogue is not None:
        known: dict[str, Expr] = {epilogue.row.name: first + epilogue.row}
        lets = tuple(Let(let.var, substitute_expr(let.value, known)) for let in epilogue.lets)
        epilogue = replace(epilogue, lets=lets, value=substitute_expr(epilogue.value, known))
    a, c = (
        replace(
            x,
            address=Slice(x.buffer, (x.address.indices[0] + x.of_row(first, s.tile_rows),)),
            tile=0,
        )
        for x in (s.a, s.c)
    )
    return replace(s, a=a, c=c, m=rows, tile_rows=rows, multiply="", epilogue=epilogue, prefetch=())
