"""Locals that are values: control flow joins them, and other locals have memory as before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Allocate, Buffer, Expr, Function, Load, Module, Store, Var
from support.native_functions import NativeModule, runnable_target

LANES = 4
N = Var("n")
X, Y = (Buffer(name, F32, (64,)) for name in "xy")
TARGET = runnable_target("avx2")
Body = Callable[[t.LoopBuilder, Buffer], None]


def at(local: Buffer, number: int) -> Load:
    return Load(local, (t.as_expr(number * LANES),), LANES)


def add(b: t.LoopBuilder, local: Buffer, number: int, value: Expr) -> None:
    b.store(local, (number * LANES,), at(local, number) + value)


def row(index: t.Value, lanes: int = LANES) -> Load:
    return Load(X, (t.as_expr(index),), lanes)


def function(body: Body) -> Function:
    """Two vectors of sums that `body` changes, and their sums and differences in y."""
    b = t.LoopBuilder()
    acc = b.allocate("acc", F32, (2 * LANES,))
    for number in range(2):
        b.store(acc, (number * LANES,), t.const(float(number), F32, LANES))
    body(b, acc)
    b.store(Y, (0,), at(acc, 0) + at(acc, 1))
    b.store(Y, (LANES,), at(acc, 0) - at(acc, 1))
    return b.function("f", (X, Y, N))


def in_loop(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.loop("i", 0, 5) as i:
        add(b, acc, 0, row(i * 4))


def in_loop_of_some_rounds(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.loop("i", 0, N) as i:
        add(b, acc, 1, row(i * 4))


def in_nested_loops(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.loop("i", 0, N) as i:
        add(b, acc, 0, row(i * 4))
        with b.loop("j", i, N) as j:
            add(b, acc, 1, at(acc, 0) + row(j * 4))


def in_one_arm(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.when(t.as_expr(N) > 3):
        add(b, acc, 0, row(8))


def in_both_arms(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.loop("i", 0, N) as i:
        with b.when(t.equal(i % 2, 1)):
            add(b, acc, 0, row(i * 4))
        with b.otherwise():
            add(b, acc, 1, row(i))
            with b.when(i > 4):
                b.store(acc, (0,), row(0))


def in_while(b: t.LoopBuilder, acc: Buffer) -> None:
    count = b.allocate("count", S64, (1,))
    b.store(count, (0,), 0)
    with b.repeat(count[0] < N):
        add(b, acc, 0, row(count[0] * 4))
        b.store(count, (0,), count[0] + 1)


def made_in_each_round(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.loop("i", 0, N) as i:
        own = b.allocate("own", F32, (LANES,))
        b.store(own, (0,), row(i))
        add(b, own, 0, row(i + 1))
        add(b, acc, 0, at(own, 0))


def read_in_part(b: t.LoopBuilder, acc: Buffer) -> None:
    b.store(Y, (8,), Load(acc, (t.as_expr(LANES),), LANES, 3) + row(4))


def of_scalars_in_loops(b: t.LoopBuilder, acc: Buffer) -> None:
    total = b.allocate("total", S64, (1,))
    b.store(total, (0,), 3)
    with b.loop("i", 0, N) as i, b.loop("j", 0, 3) as j:
        b.store(total, (0,), total[0] + (i * j) % 5)
    add(b, acc, 1, row(total[0] % 16))


def of_one_name(b: t.LoopBuilder, acc: Buffer) -> None:
    """Locals of two loops share a name, as the verifier allows."""
    own = Buffer("own", F32, (LANES,), "local")
    for offset in (0, 1):
        with b.loop(f"i{offset}", 0, N) as i:
            b.emit(Allocate(own))
            b.store(own, (0,), row(i + offset))
            with b.when(i > 1):
                add(b, own, 0, row(i))
            add(b, acc, offset, at(own, 0))


def of_one_name_and_other_types(b: t.LoopBuilder, acc: Buffer) -> None:
    for offset, dtype in enumerate((F32, S64)):
        own = Buffer("own", dtype, (1,), "local")
        with b.loop(f"i{offset}", 0, N) as i:
            b.emit(Allocate(own))
            b.store(own, (0,), t.const(3, dtype))
            with b.when(i > 1):
                b.store(own, (0,), own[0] + own[0])
            add(b, acc, offset, t.broadcast(t.cast(own[0], F32), LANES))


def replaced_by_a_value_from_outside(b: t.LoopBuilder, acc: Buffer) -> None:
    """The value that a loop stores is older than the loop, and used after the branch that holds the loop."""
    count = b.allocate("count", S64, (1,))
    b.store(count, (0,), t.as_expr(N) * N)
    kept = b.let("kept", count[0])
    with b.when(t.as_expr(N) > 1), b.when(t.as_expr(N) > 2), b.loop("i", 0, 3):
        b.store(count, (0,), kept)
    with b.loop("j", 0, 3):
        b.store(count, (0,), N)
    add(b, acc, 0, row(kept % 7))
    add(b, acc, 1, row(count[0] % 5))


def of_unlike_lanes(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.loop("i", 0, N) as i:
        b.store(acc, (1,), X[i])


def at_any_index(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.loop("i", 0, 2) as i:
        b.store(acc, (i * LANES,), row(i))


def in_code_that_never_runs(b: t.LoopBuilder, acc: Buffer) -> None:
    with b.when(t.as_expr(N) > 9):
        b.store(acc, (8 * LANES,), at(acc, 4))


def across_values(b: t.LoopBuilder, acc: Buffer) -> None:
    b.store(acc, (2,), row(3))


def in_part(b: t.LoopBuilder, acc: Buffer) -> None:
    b.emit(Store(acc, (t.ZERO,), row(5), 3))


VALUES: tuple[Body, ...] = (
    in_loop, in_loop_of_some_rounds, in_nested_loops, in_one_arm, in_both_arms, in_while, made_in_each_round,
    read_in_part, of_scalars_in_loops, of_one_name, of_one_name_and_other_types, replaced_by_a_value_from_outside,
)  # fmt: skip
MEMORY: tuple[Body, ...] = (
    of_unlike_lanes, at_any_index, in_code_that_never_runs, across_values, in_part,
)  # fmt: skip


@pytest.mark.parametrize("body", VALUES + MEMORY)
def test_programs_compute_what_the_interpreter_does(body: Body) -> None:
    module = NativeModule(Module((function(body),)), TARGET)
    x = np.random.default_rng(3).integers(-9, 9, 64).astype(np.float32)
    for count in (0, 1, 2, 7):
        module.check("f", [x, np.zeros(64, np.float32), count])


@pytest.mark.parametrize("body", VALUES)
def test_values_have_no_memory(body: Body) -> None:
    assert "alloca" not in emit_module(Module((function(body),)), TARGET)


@pytest.mark.parametrize("body", MEMORY)
def test_locals_with_other_accesses_have_memory(body: Body) -> None:
    assert emit_module(Module((function(body),)), TARGET).count(" alloca ") == 1
