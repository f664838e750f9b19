"""Statements: loops, branches, names and their scopes, locals, calls; and random programs against the interpreter."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64, U8
from graphc.base.errors import InternalError
from graphc.codegen.llvm_emitter import MAX_LOCAL_BYTES
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import (
    Allocate,
    Block,
    Buffer,
    Expr,
    Function,
    If,
    Invoke,
    Let,
    Module,
    Prefetch,
    Slice,
    Stmt,
    Store,
    Var,
)
from support.native_functions import NativeModule, runnable_target

OUT = Buffer("out", S64, (64,))
TARGET = runnable_target("avx2")


def native(*functions: Function) -> NativeModule:
    return NativeModule(Module(functions), TARGET)


def out() -> np.ndarray:
    return np.zeros(64, np.int64)


LOOPS = (
    (0, 5, 1),
    (0, 0, 1),
    (5, 2, 1),
    (3, 4, 1),
    (3, 4, 7),
    (2, 11, 3),
    (2, 12, 5),
    (-4, 3, 2),
    (0, 64, 64),
)


@pytest.mark.parametrize("begin, end, step", LOOPS)
def test_loops_of_literal_and_computed_bounds(begin: int, end: int, step: int) -> None:
    first, last = Var("first"), Var("last")
    functions = []
    bounds: list[tuple[str, t.Value, t.Value]] = [
        ("literal", begin, end),
        ("computed", first, last),
    ]
    for name, low, high in bounds:
        b = t.LoopBuilder()
        with b.loop("i", low, high, step=step) as i:
            b.store(OUT, (i + 4,), i * 10 + 1)
        functions.append(b.function(name, (OUT, first, last)))
    module = native(*functions)
    for function in functions:
        module.check(function.name, [out(), begin, end])


@pytest.mark.parametrize("kind", ["serial", "parallel", "unrolled", "vector"])
def test_every_kind_of_loop_runs(kind: t.LoopKind) -> None:
    b = t.LoopBuilder()
    with b.loop("i", 0, 9, kind) as i:
        b.store(OUT, (i,), i * i)
    native(b.function("f", (OUT,))).check("f", [out()])


def test_bounds_are_evaluated_once() -> None:
    count = Buffer("count", S64, (1,))
    b = t.LoopBuilder()
    with b.loop("i", 0, count[0]) as i:
        b.store(count, (0,), 1)
        b.store(OUT, (i,), 7)
    native(b.function("f", (count, OUT))).check("f", [np.array([5]), out()])


def test_branches_with_and_without_else() -> None:
    n = Var("n")
    b = t.LoopBuilder()
    with b.when(n < 3):
        b.store(OUT, (0,), n * 5)
        with b.when(t.equal(n, 1)):
            b.store(OUT, (1,), 11)
    with b.otherwise():
        b.store(OUT, (0,), n * 7)
    b.store(OUT, (2,), n * 5 + n * 7)
    module = native(b.function("f", (OUT, n)))
    for value in (0, 1, 2, 3, 4):
        module.check("f", [out(), value])


def test_a_while_loop_looks_at_memory_before_every_round() -> None:
    n, many = Var("n"), Var("many")
    b = t.LoopBuilder()
    b.store(OUT, (0,), n)
    with b.repeat(t.unequal(OUT[0], 1)):
        value = b.let("value", OUT[0])
        odd = t.equal(value % 2, 1)
        with b.when(odd):
            b.store(OUT, (0,), value * 3 + 1)
        with b.otherwise():
            b.store(OUT, (0,), value // 2)
        b.store(OUT, (1,), OUT[1] + many * 3)  # the multiplication leaves the loop
    b.store(OUT, (2,), many * 3)
    module = native(b.function("f", (OUT, n, many)))
    for start in (1, 2, 27):
        module.check("f", [out(), start, 5])


def test_while_loops_inside_each_other() -> None:
    n = Var("n")
    b = t.LoopBuilder()
    with b.repeat(OUT[0] < n):
        b.store(OUT, (1,), 0)
        with b.repeat(OUT[1] < OUT[0]):
            b.store(OUT, (1,), OUT[1] + 1)
            b.store(OUT, (2,), OUT[2] + OUT[1])
        b.store(OUT, (0,), OUT[0] + 1)
    module = native(b.function("f", (OUT, n)))
    for value in (0, 1, 5):
        module.check("f", [out(), value])


def test_a_name_may_be_bound_again_in_another_block() -> None:
    n = Var("n")
    x, y, z = Var("x"), Var("y"), Var("z")

    def put(slot: int, value: Expr) -> Stmt:
        return t.Store(OUT, (t.as_expr(slot),), value)

    body = (
        Let(x, n + 1),
        Block((Let(y, x + 1), put(0, y))),
        Block((Let(y, x + 2), put(1, y), Block((Let(z, y + 3), put(2, z))), put(3, x))),
        Block((Let(z, n + 1), put(4, z))),
    )
    native(Function("f", (OUT, n), Block(body))).check("f", [out(), 10])


def test_a_local_of_each_iteration_and_of_each_function() -> None:
    local = Buffer("local", S64, (4,), "local")
    b = t.LoopBuilder()
    with b.loop("i", 0, 4) as i:
        b.emit(Allocate(local))
        with b.loop("j", 0, 4) as j:
            b.store(local, (j,), i * 10 + j)
        b.store(OUT, (i,), local[3] + local[i])
    native(b.function("f", (OUT,))).check("f", [out()])


def test_calls_pass_addresses_and_numbers() -> None:
    row, n = Buffer("row", S64, (8,)), Var("n")
    b = t.LoopBuilder()
    b.store(row, (1,), row[0] + n)
    callee = b.function("callee", (row, n))
    b = t.LoopBuilder()
    with b.loop("i", 0, 8) as i:
        slot = Slice(OUT, (i * 8,))
        b.emit(Invoke("callee", (slot, i + 100)))
    native(callee, b.function("caller", (OUT,))).check("caller", [np.arange(64)])


def test_a_callee_may_see_bytes_as_another_type() -> None:
    arena, part = Buffer("arena", U8, (64,)), Buffer("part", F32, (4,))
    b = t.LoopBuilder()
    b.store(part, (3,), 1.5)
    callee = b.function("callee", (part,))
    caller = Function("caller", (arena,), Block((Invoke("callee", (t.slice_of(arena, (16,)),)),)))
    native(callee, caller).check("caller", [np.zeros(64, np.uint8)])


def test_a_local_passed_to_a_callee_stays_in_memory() -> None:
    local = Buffer("local", S64, (8,), "local")
    row = Buffer("row", S64, (8,))
    b = t.LoopBuilder()
    b.store(row, (2,), row[1] + 1)
    callee = b.function("callee", (row,))
    b = t.LoopBuilder()
    b.emit(Allocate(local))
    b.store(local, (1,), 41)
    b.emit(Invoke("callee", (t.slice_of(local),)))
    b.store(OUT, (0,), local[2])
    native(callee, b.function("caller", (OUT,))).check("caller", [out()])


@pytest.mark.parametrize(
    "name", ["f32_gemm_6x16__avx2", "conv.1 'x'", 'a"b\\c', "größe", "exp", "fma", "memcpy"]
)
def test_names_of_functions_may_hold_any_character(name: str) -> None:
    buffer = Buffer("x", F32, (1,))
    b = t.LoopBuilder()
    b.store(buffer, (0,), t.call("exp", buffer[0]))
    callee = b.function(name, (buffer,))
    caller = Function("caller", (buffer,), Block((Invoke(name, (t.slice_of(buffer),)),)))
    array = np.zeros(1, np.float32)
    native(callee, caller).call("caller", [array])
    assert array[0] == 1


def test_what_a_pass_should_have_removed_is_named() -> None:
    a = Buffer("a", F32, (4,))
    slot = t.slice_of(a)
    brgemm = t.brgemm(slot, slot, slot, 1, 1, 1, 1, 0, 1, 1, 0, 1, 1, False, 1)
    with pytest.raises(InternalError, match="function 'f' still holds a Brgemm"):
        emit_module(Module((Function("f", (a,), Block((brgemm,))),)), TARGET)


def test_large_locals_of_both_arms_of_an_if_share_memory() -> None:
    """The second arm reuses the memory of the first one's local if its own local fits there."""
    many, few = (
        Buffer(name, S64, (size,), "local") for name, size in (("many", 600), ("few", 512))
    )
    b = t.LoopBuilder()
    with b.loop("i", 0, 4) as i:
        with b.when(i < 2):
            b.emit(Allocate(many))
            b.store(many, (599,), i)
            b.store(OUT, (i,), many[599])
        with b.otherwise():
            b.emit(Allocate(few))
            b.store(few, (511,), i * 10)
            b.store(OUT, (i,), few[511])
    function = b.function("f", (OUT,))
    assert emit_module(Module((function,)), TARGET).count("alloca") == 1
    native(function).check("f", [out()])


def test_locals_beyond_the_stack_are_refused() -> None:
    local = Buffer("big", U8, (MAX_LOCAL_BYTES + 1,), "local")
    with pytest.raises(
        InternalError, match=f"'f': locals up to 'big' take {MAX_LOCAL_BYTES + 1} bytes"
    ):
        emit_module(Module((Function("f", (), Block((Allocate(local),))),)), TARGET)


@pytest.mark.parametrize(
    "call, message",
    [
        (Invoke("nobody", ()), "function 'f' calls 'nobody', which is not in the module"),
        (Invoke("f", ()), "'f' takes 1 arguments, got 0"),
    ],
)
def test_calls_that_do_not_fit_are_refused(call: Stmt, message: str) -> None:
    with pytest.raises(InternalError, match=message):
        emit_module(Module((Function("f", (OUT,), Block((call,))),)), TARGET)


class _RandomProgram:
    """Loops and branches around stores of index arithmetic, from few variables, so that values recur everywhere."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.names = 0
        self.slot = 0

    def expr(self, variables: Sequence[Var], depth: int = 3) -> Expr:
        if depth == 0 or self.random.random() < 0.2:
            return self.random.choice([*variables, t.as_expr(self.random.randint(-3, 9))])
        op = self.random.choice(("add", "sub", "mul", "div", "mod", "min", "max", "and", "shr"))
        left, right = (self.expr(variables, depth - 1) for _ in range(2))
        if self.random.random() < 0.2:
            return t.select(left < right, left, right + 1)
        return t.binary(op, left, right)

    def fresh(self) -> Var:
        self.names += 1
        return Var(f"v{self.names}")

    def block(self, variables: list[Var], depth: int) -> Block:
        body: list[Stmt] = []
        scope = list(variables)
        for _ in range(self.random.randint(1, 4)):
            body.append(self.statement(scope, depth))
            if isinstance(body[-1], Let):
                scope.append(body[-1].var)
        return Block(tuple(body))

    def statement(self, scope: list[Var], depth: int) -> Stmt:
        kind = self.random.choice(("store", "let", "for", "if") if depth else ("store", "let"))
        if kind == "let":
            return Let(self.fresh(), self.expr(scope))
        if kind == "for":
            var = self.fresh()
            begin = self.random.choice([t.as_expr(0), self.expr(scope) % 3])
            end = self.random.choice([t.as_expr(3), self.expr(scope) % 4])
            return t.For(
                var,
                begin,
                end,
                self.block([*scope, var], depth - 1),
                "serial",
                self.random.choice((1, 2)),
            )
        if kind == "if":
            condition = t.compare(
                self.random.choice(("lt", "eq", "ge")), self.expr(scope), self.expr(scope)
            )
            otherwise = self.random.choice([None, self.block(scope, depth - 1)])
            return If(condition, self.block(scope, depth - 1), otherwise)
        self.slot = (self.slot + 1) % 64
        old = OUT[self.slot]
        # Sums, so that every execution of the statement shows in the result.
        return t.Store(OUT, (t.as_expr(self.slot),), old * 31 + self.expr(scope))


def test_random_programs() -> None:
    x, y = Var("x"), Var("y")
    functions = [
        Function(f"f{seed}", (OUT, x, y), _RandomProgram(seed).block([x, y], 3))
        for seed in range(50)
    ]
    module = native(*functions)
    for function in functions:
        for values in ((0, 0), (1, -2), (5, 7)):
            module.check(function.name, [out(), *values])


def test_a_hint_is_an_instruction_and_nothing_else() -> None:
    """An address far outside its buffer is not an error. LLVM counts from the core: 3 is L1, 2 is L2."""
    slot = Slice(OUT, (t.as_expr(1 << 40),))
    one = Store(OUT, (t.as_expr(0),), t.as_expr(1))
    module = Module((Function("f", (OUT,), Block((Prefetch(slot), Prefetch(slot, 1), one))),))
    result = out()
    NativeModule(module, TARGET).call("f", [result])
    text = emit_module(module, TARGET)
    assert result[0] == 1 and "i32 0, i32 2, i32 1)" in text and "i32 0, i32 3, i32 1)" in text
