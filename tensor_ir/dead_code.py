"""Removes unused bindings, locals and stores to locals, and empty loops and branches."""

from __future__ import annotations

from dataclasses import replace

from .nodes import (
    Allocate,
    Block,
    Buffer,
    Const,
    Epilogue,
    Expr,
    For,
    Function,
    If,
    Let,
    Stmt,
    Store,
    Var,
)
from .visitor import READING, Rewriter, add_vars, buffers_in, walk_statements


def without_dead_code(function: Function) -> Function:
    """`function` without dead code; the same object if there is none."""
    return _Sweep(function).function(function)


class _Sweep(Rewriter):
    """Visits statements backwards, so that code used only by dead code is dead too."""

    def __init__(self, function: Function) -> None:
        self.read = {p.name for p in function.params if isinstance(p, Buffer)}
        if any(type(s) is Allocate for s in walk_statements(function.body)):
            self.read.update(buffers_in(function.body, READING))
        self.used: set[str] = set()

    def expr(self, e: Expr) -> Expr:
        kind = type(e)
        if kind is Var:
            self.used.add(e.name)  # type: ignore[union-attr]
        elif kind is not Const:
            add_vars(e, self.used)
        return e

    def block(self, s: Block) -> Block:
        kept: list[Stmt] = []
        same = True
        for inner in reversed(s.body):
            new = self.stmt(inner)
            same = same and new is inner
            kept.extend(reversed(new) if isinstance(new, tuple) else (new,))
        return s if same else Block(tuple(reversed(kept)))

    def epilogue(self, e: Epilogue) -> Epilogue:
        self.expr(e.value)
        kept = []
        for let in reversed(e.lets):
            if let.var.name in self.used:
                self.expr(let.value)
                kept.append(let)
        return e if len(kept) == len(e.lets) else replace(e, lets=tuple(reversed(kept)))

    def let(self, s: Let) -> Stmt | tuple[Stmt, ...]:
        if s.var.name not in self.used:
            return ()
        self.expr(s.value)
        return s

    def store(self, s: Store) -> Stmt | tuple[Stmt, ...]:
        if s.buffer.name not in self.read:
            return ()
        for index in s.indices:
            self.expr(index)
        self.expr(s.value)
        return s

    def allocate(self, s: Allocate) -> Stmt | tuple[Stmt, ...]:
        return s if s.buffer.name in self.read else ()

    def for_(self, s: For) -> Stmt | tuple[Stmt, ...]:
        new = super().for_(s)
        return () if isinstance(new, For) and new.body == Block(()) else new

    def if_(self, s: If) -> Stmt | tuple[Stmt, ...]:
        new = super().if_(s)
        if isinstance(new, If) and new.otherwise == Block(()):
            new = If(new.condition, new.then)
        return (
            () if isinstance(new, If) and new.otherwise is None and new.then == Block(()) else new
        )
