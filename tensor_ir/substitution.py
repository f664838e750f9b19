"""Copies with variables and buffers replaced, and with bound names fresh."""

from __future__ import annotations

from collections.abc import Mapping

from .names import Names
from .nodes import Allocate, Block, Buffer, Expr, For, Let, Stmt, Var
from .visitor import Rewriter


class _Substitution(Rewriter):
    def __init__(self, values: Mapping[str, Expr], buffers: Mapping[str, Buffer]) -> None:
        self.values = dict(values)
        self.buffers = dict(buffers)

    def var(self, e: Var) -> Expr:
        return self.values.get(e.name, e)

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.buffers.get(buffer.name, buffer)


class RenamedCopy(_Substitution):
    """Substitution that also renames everything bound inside to fresh names, scope by scope."""

    def __init__(self, names: Names, values: Mapping[str, Expr]) -> None:
        super().__init__(values, {})
        self.names = names

    def _bind(self, var: Var) -> Var:
        new = Var(self.names.fresh(var.name), var.dtype, var.lanes)
        self.values[var.name] = new
        return new

    def block(self, s: Block) -> Block:
        """Copy a block; its names end with it."""
        values, buffers = dict(self.values), dict(self.buffers)
        new = super().block(s)
        self.values, self.buffers = values, buffers
        return new

    def let(self, s: Let) -> Let:
        """Copy a binding under a fresh name."""
        value = self.expr(s.value)
        return Let(self._bind(s.var), value)

    def for_(self, s: For) -> For:
        """Copy a loop, its variable under a fresh name."""
        begin, end = self.expr(s.begin), self.expr(s.end)
        var = self._bind(s.var)
        return For(var, begin, end, self.body(s.body), s.kind, s.step)

    def allocate(self, s: Allocate) -> Allocate:
        """Copy an allocation under a fresh name."""
        old = s.buffer
        self.buffers[old.name] = Buffer(
            self.names.fresh(old.name), old.dtype, old.shape, old.storage
        )
        return Allocate(self.buffers[old.name])


def substitute_expr(e: Expr, values: Mapping[str, Expr]) -> Expr:
    """`e` with variables replaced by expressions."""
    return _Substitution(values, {}).expr(e)


def substitute(
    s: Stmt, values: Mapping[str, Expr], buffers: Mapping[str, Buffer] | None = None
) -> Stmt:
    """`s` with variables replaced by expressions and buffers by buffers, where they are used."""
    return _Substitution(values, buffers or {}).body(s)


def renamed_copy(s: Stmt, names: Names, values: Mapping[str, Expr] | None = None) -> Stmt:
    """A copy of `s` with `values` substituted and all bound names fresh, to be used beside the original."""
    return RenamedCopy(names, values or {}).body(s)
