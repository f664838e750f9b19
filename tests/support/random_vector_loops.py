"""Random loop nests around a vector loop that run without an error: every index is brought in bounds by a remainder."""

from __future__ import annotations

import random

from graphc.base.dtypes import F32, S8, S32, S64, U8
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.builder import LoopBuilder
from graphc.tensor_ir.nodes import Binary, Buffer, Expr, Module

EXTENTS = (1, 2, 3, 5, 8, 9, 13, 16, 17, 24, 31, 33, 40, 64, 70)


def random_vector_loop(seed: int) -> Module:
    """A function `f` of small integers: what it computes is exact in every order of sums."""
    return _Generator(seed).module()


class _Generator:
    def __init__(self, seed: int) -> None:
        self.rnd = random.Random(seed)
        self.n = self.rnd.choice(EXTENTS)
        self.dtype = self.rnd.choice([S32, S32, S8, S64, F32, U8])
        n, dtype = self.n, self.dtype
        self.flat = Buffer("flat", dtype, (self.rnd.choice([7, 64, 100]),))
        self.matrix = Buffer("matrix", dtype, (4, self.rnd.choice([n, n + 3, 16])))
        self.table = Buffer("table", S64, (self.rnd.choice([n, 50]),))
        self.out, self.pairs = Buffer("out", dtype, (3, n)), Buffer("pairs", dtype, (3, n, 2))
        self.sums = Buffer("sums", dtype, (3,))
        self.vars: list[Expr] = []
        self.known: list[Expr] = []
        self.b = LoopBuilder()

    def module(self) -> Module:
        b, op = self.b, self.rnd.choice(["add", "max", "min"])
        with b.loop("i", 0, 3, self.rnd.choice(["parallel", "serial"])) as i:
            acc = b.allocate("acc", self.dtype, (2,))
            b.store(acc, (0,), 1)
            b.store(acc, (1,), 2)
            begin, end = self.rnd.choice(
                [(0, self.n), (1, self.n), (i, t.minimum(i + (self.n - 2), self.n))]
            )
            with b.loop("j", begin, end, "vector") as j:
                self.vars = [i, j, j]
                self.bindings()
                self.own_local()
                self.accumulate(acc, op)
                self.stores(i, j)
            b.store(self.sums, (i,), acc[0] + acc[1])
        params = (self.flat, self.matrix, self.table, self.out, self.pairs, self.sums)
        return Module((b.function("f", params),))

    def likely(self, chance: float) -> bool:
        return self.rnd.random() < chance

    # statements of the body

    def bindings(self) -> None:
        for _ in range(self.rnd.randint(0, 3)):
            if self.likely(0.4):
                self.vars.append(self.b.let("at", self.index() % self.rnd.choice([4, 16, self.n])))
            elif self.likely(0.2):
                self.vars.append(self.b.let("found", self.lookup() % self.n))
            else:
                self.known.append(self.b.let("v", self.value(1)))

    def own_local(self) -> None:
        """Each iteration sums up in a separate local."""
        if not self.likely(0.3):
            return
        own = self.b.allocate("own", self.dtype, (2,))
        self.b.store(own, (0,), self.value(1))
        self.b.store(own, (1,), 0)
        with self.b.loop(
            "k", 0, self.rnd.choice([1, 2, 3]), self.rnd.choice(["serial", "unrolled"])
        ) as k:
            self.vars.append(k)
            here = (k % 2,)
            self.b.store(own, here, own[here] + self.value(1))
            self.vars.pop()
        self.known += [own[0], own[1]]

    def accumulate(self, acc: Buffer, op: str) -> None:
        if self.likely(0.6):
            slot, value = (self.rnd.choice([0, 1]),), self.value(1)
            old = acc[slot]
            self.b.store(
                acc, slot, Binary(op, old, value) if self.likely(0.7) else Binary(op, value, old)
            )
        if self.likely(0.2):
            with self.b.loop("k", 0, 2) as k:
                self.b.store(acc, (k,), Binary(op, acc[k], self.value(1)))

    def stores(self, i: Expr, j: Expr) -> None:
        if self.likely(0.3):
            with self.b.when(i < 1):
                self.b.store(self.out, (i, j), self.value(2))
        else:
            self.b.store(self.out, (i, j), self.value(2))
        if self.likely(0.4):
            self.b.store(self.pairs, (i, j, self.rnd.choice([0, 1])), self.value(1))

    # expressions

    def index(self, depth: int = 2) -> Expr:
        if depth == 0 or self.likely(0.2):
            return self.rnd.choice([*self.vars, t.as_expr(self.rnd.choice([0, 1, 2, 3, 5, 8, 16]))])
        op = self.rnd.choice(["add", "add", "sub", "mul", "div", "mod", "min", "max"])
        if op in ("mul", "div", "mod"):
            return Binary(
                op, self.index(depth - 1), t.as_expr(self.rnd.choice([1, 2, 3, 4, 8, 16]))
            )
        return Binary(op, self.index(depth - 1), self.index(depth - 1))

    def lookup(self) -> Expr:
        return self.table[self.index() % self.table.shape[0]]

    def load(self) -> Expr:
        chance = self.rnd.random()
        if chance < 0.5:
            return self.flat[self.index() % self.flat.shape[0]]
        if chance < 0.8:
            row, column = self.index(1) % 4, self.index() % self.matrix.shape[1]
            return self.matrix[row, column]
        return self.flat[self.lookup() % self.flat.shape[0]]

    def value(self, depth: int) -> Expr:
        if depth == 0:
            leaves = [
                self.load(),
                self.load(),
                t.const(2, self.dtype),
                t.cast(self.index(), self.dtype),
            ]
            return self.rnd.choice([*leaves, *self.known])
        kind = self.rnd.random()
        if kind < 0.7:
            op = self.rnd.choice(["add", "sub", "min", "max"])
            return Binary(op, self.value(depth - 1), self.value(depth - 1))
        if kind < 0.85:
            condition = self.index() < self.index()
            return t.select(condition, self.value(depth - 1), self.value(depth - 1))
        return t.cast(t.cast(self.value(depth - 1), self.rnd.choice([S8, S32, F32])), self.dtype)
