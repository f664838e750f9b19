from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from graphc.dtypes import ALL, BF16, BOOL, F16, F32, F64, S8, S32, S64, U8, DType
from graphc.target import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.builder import LoopBuilder
from graphc.tensor_ir.nodes import Binary, Buffer, Const, For, Function, Load, Module, Store, Var
from graphc.tensor_ir.passes.flatten_index import flatten_index
from graphc.tensor_ir.passes.simplify import simplify
from graphc.tensor_ir.passes.vectorize import vectorize
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.visitor import walk
from support.golden import Golden
from support.loops import assert_same_meaning, random_arguments, results

AVX2 = Target("avx2")
EXTENTS = (0, 1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 35, 64, 67, 131)


def module(b: LoopBuilder, *params: Buffer | Var) -> Module:
    return Module((b.function("f", params),))


def elementwise(n: int) -> Module:
    """Contiguous in the last axis, a row that all lanes share, a scalar in the body."""
    a, bias, c = Buffer("a", F32, (3, n)), Buffer("bias", F32, (3,)), Buffer("c", F32, (3, n))
    b = LoopBuilder()
    with b.loop("i", 0, 3) as i, b.loop("j", 0, n, "vector") as j:
        x = b.let("x", t.mul(t.load(a, (i, j)), 2.0))
        row = b.let("row", t.load(bias, (i,)))
        b.store(c, (i, j), t.maximum(t.add(x, row), 0.0))
    return module(b, a, bias, c)


def strided(n: int) -> Module:
    """A gather, a scatter, an index table, and the loop variable as a value."""
    a, table, c = (
        Buffer("a", F32, (n + 1, 3)),
        Buffer("table", S32, (n + 1,)),
        Buffer("c", F32, (n, 2)),
    )
    d = Buffer("d", F32, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        b.store(c, (j, 1), t.load(a, (j, 2)))
        place = b.let("place", t.cast(t.load(table, (j,)), S64))
        index = t.minimum(t.maximum(place, 0), n)
        b.store(d, (j,), t.add(t.load(a, (index, 0)), t.cast(j, F32)))
    return module(b, a, table, c, d)


def reduction(n: int, op: str = "add", dtype: DType = S32) -> Module:
    """Into one local, from outside the loop."""
    a, c = Buffer("a", dtype, (2, n)), Buffer("c", dtype, (2,))
    b = LoopBuilder()
    start = {
        "add": 0,
        "mul": 1,
        "min": 100,
        "max": -100 if dtype.is_signed else 0,
        "and": 1,
        "or": 0,
    }[op]
    with b.loop("i", 0, 2) as i:
        acc = b.allocate("acc", dtype, (1,))
        b.store(acc, (0,), start)
        with b.loop("j", 0, n, "vector") as j:
            b.store(acc, (0,), Binary(op, t.load(acc, (0,)), t.load(a, (i, j))))
        b.store(c, (i,), t.load(acc, (0,)))
    return module(b, a, c)


def inner_reduction(n: int) -> Module:
    """Each lane sums up a column in a local of the body."""
    a, c = Buffer("a", F32, (5, n)), Buffer("c", F32, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        acc = b.allocate("acc", F32, (2,))
        b.store(acc, (0,), 0.0)
        b.store(acc, (1,), 0.0)
        with b.loop("k", 0, 5) as k:
            here = (t.mod(k, 2),)
            b.store(acc, here, t.add(t.load(acc, here), t.load(a, (k, j))))
        b.store(c, (j,), t.mul(t.load(acc, (0,)), t.load(acc, (1,))))
    return module(b, a, c)


def blocked(n: int) -> Module:
    """Rows of 16 in blocks of 16, as in NCHW16c: contiguous behind a division and a remainder."""
    blocks = -(-n // 16)
    a, c = Buffer("a", F32, (max(blocks, 1), 4, 16)), Buffer("c", F32, (4, n))
    b = LoopBuilder()
    with b.loop("i", 0, 4) as i, b.loop("j", 0, n, "vector") as j:
        b.store(c, (i, j), t.load(a, (t.floordiv(j, 16), i, t.mod(j, 16))))
    return module(b, a, c)


def several_accumulators(n: int) -> Module:
    """Two slots, one of them chosen by an inner loop, and a fused multiply-add."""
    a, c = Buffer("a", F32, (3, n)), Buffer("c", F32, (4,))
    b = LoopBuilder()
    acc = b.allocate("acc", F32, (3,))
    dot = b.allocate("dot", F32, (1,))
    for slot in range(3):
        b.store(acc, (slot,), 1.0)
    b.store(dot, (0,), 3.0)
    with b.loop("j", 0, n, "vector") as j:
        with b.loop("k", 0, 3) as k:
            b.store(acc, (k,), t.add(t.load(acc, (k,)), t.load(a, (k, j))))
        b.store(dot, (0,), t.fma(t.load(a, (0, j)), t.load(a, (1, j)), t.load(dot, (0,))))
    for slot in range(3):
        b.store(c, (slot,), t.load(acc, (slot,)))
    b.store(c, (3,), t.load(dot, (0,)))
    return module(b, a, c)


def branches(n: int) -> Module:
    """A branch that lanes share stays a branch; one that varies makes the loop serial."""
    a, c, d = Buffer("a", F32, (2, n)), Buffer("c", F32, (2, n)), Buffer("d", F32, (n,))
    b = LoopBuilder()
    with b.loop("i", 0, 2) as i:
        with b.loop("j", 0, n, "vector") as j, b.when(t.compare("eq", i, 1)):
            b.store(c, (i, j), t.load(a, (0, j)))
        with b.loop("j", 0, n, "vector") as j, b.when(t.compare("lt", j, n // 2)):
            b.store(d, (j,), t.load(a, (i, j)))
    return module(b, a, c, d)


def split_among_tasks(n: int) -> Module:
    """Bounds known at run time only."""
    a, c, total = Buffer("a", S32, (n,)), Buffer("c", S32, (n,)), Buffer("total", S32, (3,))
    b = LoopBuilder()
    piece = -(-n // 3)
    with b.loop("task", 0, 3, "parallel") as task:
        begin = t.minimum(t.mul(task, piece), n)
        end = t.minimum(t.add(begin, piece), n)
        acc = b.allocate("acc", S32, (1,))
        b.store(acc, (0,), 0)
        with b.loop("j", begin, end, "vector") as j:
            b.store(c, (j,), t.add(t.load(a, (j,)), 1))
            b.store(acc, (0,), t.add(t.load(acc, (0,)), t.load(a, (j,))))
        b.store(total, (task,), t.load(acc, (0,)))
    return module(b, a, c, total)


def selects(n: int) -> Module:
    """Comparisons, selections and conversions of several widths in one body."""
    a, c, d = Buffer("a", S8, (n,)), Buffer("c", BF16, (n,)), Buffer("d", BOOL, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        x = b.let("x", t.cast(t.load(a, (j,)), F32))
        positive = b.let("positive", t.compare("gt", x, 0.0))
        b.store(c, (j,), t.cast(t.select(positive, t.unary("sqrt", x), t.unary("neg", x)), BF16))
        b.store(d, (j,), positive)
    return module(b, a, c, d)


PROGRAMS: tuple[Callable[[int], Module], ...] = (
    elementwise,
    strided,
    reduction,
    inner_reduction,
    blocked,
    several_accumulators,
    branches,
    split_among_tasks,
    selects,
)


def vectorized(before: Module, target: Target) -> Module:
    after = vectorize(flatten_index(simplify(before, target), target), target)
    assert not any(isinstance(n, For) and n.kind == "vector" for n in walk(after))
    return after


@pytest.mark.parametrize("n", EXTENTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_meaning_is_kept(
    program: Callable[[int], Module], n: int, rng: np.random.Generator
) -> None:
    for isa in ("avx512", "avx2", "generic"):
        assert_same_meaning(program(n), vectorized(program(n), Target(isa)), rng)


@pytest.mark.parametrize("program", PROGRAMS)
def test_text(program: Callable[[int], Module], golden: Golden) -> None:
    golden(print_module(simplify(vectorized(program(19), AVX2), AVX2)))


@pytest.mark.parametrize("op", ["add", "mul", "min", "max", "and", "or"])
@pytest.mark.parametrize("dtype", [S8, U8, S32, S64, F32, F64, BOOL])
def test_every_accumulation(op: str, dtype: DType, rng: np.random.Generator) -> None:
    if (dtype.is_float and op in ("and", "or")) or (dtype == BOOL and op not in ("and", "or")):
        return
    for n in (5, 32, 150):
        assert_same_meaning(reduction(n, op, dtype), vectorized(reduction(n, op, dtype), AVX2), rng)


def test_long_accumulations_run_on_four_vectors(golden: Golden) -> None:
    golden(print_module(simplify(vectorized(reduction(77), AVX2), AVX2)))


def copy_of(dtype: DType, n: int) -> Module:
    a, c = Buffer("a", dtype, (n,)), Buffer("c", dtype, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        b.store(c, (j,), t.load(a, (j,)))
    return module(b, a, c)


@pytest.mark.parametrize("dtype", ALL)
def test_lanes_fill_a_register(dtype: DType, rng: np.random.Generator) -> None:
    expected = 256 // max(8, 32 if dtype in (F16, BF16) else dtype.bits)
    after = vectorized(copy_of(dtype, 100), AVX2)
    assert max(n.lanes for n in walk(after) if isinstance(n, Load)) == expected
    assert_same_meaning(copy_of(dtype, 100), after, rng)


def test_a_tail_reads_and_writes_only_what_exists(rng: np.random.Generator) -> None:
    """The interpreter checks every access; a tail of whole vectors would be out of bounds."""
    for n in range(1, 40):
        before = copy_of(F32, n)
        after = vectorized(before, AVX2)
        arguments = random_arguments(before.functions[0], rng)
        np.testing.assert_array_equal(results(after, "f", arguments)[1], arguments[0])


def test_a_loop_that_carries_a_value_stays_serial() -> None:
    a, c = Buffer("a", F32, (8,)), Buffer("c", F32, (9,))
    j = Var("j")
    carried = Store(c, (t.as_expr(0),), t.add(t.load(c, (0,)), t.load(a, (j,))))  # not a local
    loop = For(j, t.as_expr(0), t.as_expr(8), carried, "vector")
    after = vectorize(Module((Function("f", (a, c), t.Block((loop,))),)), AVX2)
    (only,) = after.functions[0].body.body
    assert isinstance(only, For) and only.kind == "serial" and only.body is carried


def test_without_vector_loops_the_module_is_the_same_object() -> None:
    before = flatten_index(simplify(elementwise(0), AVX2), AVX2)
    assert vectorize(before, AVX2) is before


def test_the_innermost_vector_loop_wins() -> None:
    a = Buffer("a", F32, (64,))
    b = LoopBuilder()
    with b.loop("i", 0, 8, "vector") as i, b.loop("j", 0, 8, "vector") as j:
        b.store(a, (t.add(t.mul(i, 8), j),), 1.0)
    (outer,) = vectorize(module(b, a), AVX2).functions[0].body.body
    assert isinstance(outer, For) and outer.kind == "serial"
    assert isinstance(outer.body, Store) and outer.body.value.lanes == 8


def test_strides_are_found_through_bindings() -> None:
    a, c = Buffer("a", F32, (64,)), Buffer("c", F32, (64,))
    b = LoopBuilder()
    with b.loop("j", 0, 64, "vector") as j:
        at = b.let("at", t.sub(63, j))
        back = b.let("back", t.sub(63, at))
        b.store(c, (back,), t.load(a, (t.sub(63, at),)))
    (loop,) = simplify(vectorized(module(b, a, c), AVX2), AVX2).functions[0].body.body
    assert isinstance(loop, For) and isinstance(loop.body, Store)
    value = loop.body.value
    assert isinstance(value, Load) and value.indices == loop.body.indices == (loop.var,)
    assert loop.step == 8 and loop.end == Const(64, S64)
