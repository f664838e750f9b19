"""Make every buffer one-dimensional: indices become the row-major offset.

before   acc: f32[4, 16]; acc[r, c] = a[i, j]          with a: f32[8, 32]
after    acc: f32[64]; acc[r * 16 + c] = a[i * 32 + j]  with a: f32[256]
Ensures: 1-D buffers only. Arrays passed at run time stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from ...targets.isa import Target
from .. import builder as t
from ..nodes import Allocate, Buffer, Expr, Function, Load, Module, Slice, Stmt, Store
from ..sizes import elements_of
from ..visitor import Rewriter, map_functions, walk_statements


def flatten_index(module: Module, target: Target) -> Module:
    """Flatten the buffers of every function."""
    return map_functions(module, _flatten_function)


def _flatten_function(function: Function) -> Function:
    inside = (s.buffer for s in walk_statements(function.body) if type(s) is Allocate)
    params = (param for param in function.params if isinstance(param, Buffer))
    if all(len(buffer.shape) == 1 for buffer in (*params, *inside)):
        return function
    return _Flattener().function(function)


class _Flattener(Rewriter):
    def __init__(self) -> None:
        self.flat: dict[Buffer, Buffer] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        if len(buffer.shape) == 1:
            return buffer
        if buffer not in self.flat:
            self.flat[buffer] = Buffer(
                buffer.name, buffer.dtype, (elements_of(buffer.shape),), buffer.storage
            )
        return self.flat[buffer]

    def function(self, f: Function) -> Function:
        new = super().function(f)
        params = tuple(self.buffer(p) if isinstance(p, Buffer) else p for p in f.params)
        return f if new is f and params == f.params else replace(new, params=params)

    def load(self, e: Load) -> Expr:
        indices = self.exprs(e.indices)
        buffer = self.buffer(e.buffer)
        if buffer is e.buffer:
            return e if indices is e.indices else Load(buffer, indices, e.lanes, e.active)
        return Load(buffer, (_offset(e.buffer, indices),), e.lanes, e.active)

    def store(self, s: Store) -> Stmt:
        indices, value = self.exprs(s.indices), self.expr(s.value)
        buffer = self.buffer(s.buffer)
        if buffer is s.buffer:
            same = indices is s.indices and value is s.value
            return s if same else Store(buffer, indices, value, s.active)
        return Store(buffer, (_offset(s.buffer, indices),), value, s.active)

    def slice_(self, s: Slice) -> Slice:
        indices, buffer = self.exprs(s.indices), self.buffer(s.buffer)
        if buffer is s.buffer:
            return s if indices is s.indices else Slice(buffer, indices)
        return Slice(buffer, (_offset(s.buffer, indices),))

    def allocate(self, s: Allocate) -> Stmt:
        buffer = self.buffer(s.buffer)
        return s if buffer is s.buffer else Allocate(buffer)


def _offset(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """The row-major offset; in lanes where the last index is (a gather or scatter)."""
    if not indices:
        return t.ZERO
    lanes = indices[-1].lanes
    outer: Expr = t.ZERO
    for index, extent in zip(indices[:-1], buffer.shape[:-1], strict=True):
        outer = outer * extent + index
    outer = outer * buffer.shape[-1]
    if lanes == 1:
        return outer + indices[-1]
    return t.broadcast(outer, lanes) + indices[-1]
