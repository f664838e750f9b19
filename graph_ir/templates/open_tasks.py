"""Tasks whose number is known when a kernel runs, shared by threads where there is enough work."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dims import Size
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, Expr, For, Let, Stmt, Var
from .packing import loop


@dataclass(frozen=True)
class Sharing:
    """How threads share a product: `threads` of them from `least` multiply-adds on."""

    threads: int
    least: int

    def pays(self, multiply_adds: Size) -> Expr:
        """Whether there is work for several threads."""
        return t.as_expr(multiply_adds) >= self.least


def shared_tasks(task: Var, total: Expr, pays: Expr, body: Stmt) -> Stmt:
    """`body` for each of `total` tasks, in one parallel loop; in one thread where that does not pay."""
    chunk, each = Var("chunk"), Var("each")
    chunks = t.select(pays, total, 1)
    end = t.minimum((chunk + 1) * each, total)
    tasks = For(task, chunk * each, end, body)
    return loop(chunk, chunks, Block((Let(each, ceil_div(total, chunks)), tasks)), "parallel")


def batch_indices(names: Sequence[Var], sizes: Sequence[Size], number: Expr) -> list[Stmt]:
    """The index of each batch axis of the product of this number."""
    found: list[Stmt] = []
    for var, size in reversed(list(zip(names, sizes, strict=True))):
        last = var is names[0]
        found.append(Let(var, number if last else number % t.as_expr(size)))
        number = number // t.as_expr(size)
    return found


def ceil_div(value: Expr, divisor: Expr) -> Expr:
    """value / divisor, rounded up, of a value from 0 and a divisor from 1."""
    if divisor == t.ONE:
        return value
    return (value + divisor - 1) // divisor
