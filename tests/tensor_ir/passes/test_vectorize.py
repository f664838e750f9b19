from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.base.dtypes import ALL, BOOL, F32, F64, S8, S32, S64, U8, DType
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import pipeline
from graphc.tensor_ir.builder import LoopBuilder
from graphc.tensor_ir.nodes import (
    Block,
    Buffer,
    Call,
    Const,
    For,
    Function,
    Load,
    Module,
    Store,
    Var,
)
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.flatten_index import flatten_index
from graphc.tensor_ir.passes.simplify import simplify
from graphc.tensor_ir.passes.vectorize import vectorize
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.visitor import walk
from support.golden import Golden
from support.loop_programs import PROGRAMS, elementwise, module, reduction
from support.loops import assert_same_meaning, random_arguments, results
from support.random_vector_loops import random_vector_loop

AVX2 = Target("avx2")
EXTENTS = (0, 1, 2, 3, 7, 8, 9, 16, 17, 31, 32, 35, 64, 67, 131)


def vectorized(before: Module, target: Target) -> Module:
    after = vectorize(flatten_index(simplify(before, target), target), target)
    assert not any(isinstance(n, For) and n.kind == "vector" for n in walk(after))
    return after


@pytest.mark.exhaustive
@pytest.mark.parametrize("n", EXTENTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_meaning_is_kept(
    program: Callable[[int], Module], n: int, rng: np.random.Generator
) -> None:
    for isa in ("avx512", "avx2", "generic"):
        assert_same_meaning(program(n), vectorized(program(n), Target(isa)), rng)


@given(st.integers(0, 1 << 32), st.sampled_from(["avx512", "avx2", "generic"]))
def test_random_loops_keep_their_meaning(seed: int, isa: str) -> None:
    before, target = random_vector_loop(seed), Target(isa)
    rng = np.random.default_rng(seed)
    assert_same_meaning(before, vectorized(before, target), rng)
    assert_same_meaning(before, pipeline.run(before, target), rng)


@pytest.mark.parametrize("program", PROGRAMS)
def test_text(program: Callable[[int], Module], golden: Golden) -> None:
    golden(print_module(simplify(vectorized(program(19), AVX2), AVX2)))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *((op, d) for op in ("add", "mul", "min", "max") for d in (S8, U8, S32, S64, F32, F64)),
        *((op, d) for op in ("and", "or") for d in (S8, U8, S32, S64, BOOL)),
        *(("larger", d) for d in (F32, F64)),
    ],
)
def test_every_accumulation(op: str, dtype: DType, rng: np.random.Generator) -> None:
    for n in (5, 32, 150):
        assert_same_meaning(reduction(n, op, dtype), vectorized(reduction(n, op, dtype), AVX2), rng)


def test_long_accumulations_run_on_four_vectors(golden: Golden) -> None:
    golden(print_module(simplify(vectorized(reduction(77), AVX2), AVX2)))


def copy_of(dtype: DType, n: int) -> Module:
    a, c = Buffer("a", dtype, (n,)), Buffer("c", dtype, (n,))
    b = LoopBuilder()
    with b.loop("j", 0, n, "vector") as j:
        b.store(c, (j,), a[j])
    return module(b, a, c)


@pytest.mark.parametrize("dtype", ALL)
def test_lanes_fill_a_register(dtype: DType, rng: np.random.Generator) -> None:
    expected = 256 // max(8, dtype.accumulator.bits)
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


def quantized(n: int) -> Module:
    """Bytes of f32."""
    x, y, i = Buffer("x", F32, (n,)), Buffer("y", U8, (n,)), Var("i")
    value = Call("quantize", (x[i], t.const(3, S32)), U8)
    loop = For(i, t.as_expr(0), t.as_expr(n), Block((Store(y, (i,), value),)), "vector")
    return Module((Function("f", (x, y), Block((loop,))),))


@pytest.mark.parametrize(
    ("n", "on_avx2", "on_avx512"),
    [(7, [8], [8]), (9, [8, 1], [16]), (16, [16], [16]), (17, [16, 1], [16, 1]), (31, [16, 8, 8], [16, 16]),
     (32, [32], [16]), (61, [32, 16, 8, 8], [16, 16]), (100, [32, 4], [16, 4])],
)  # fmt: skip
def test_bytes_of_four_vectors_are_stored_together_where_vectors_are_packed(
    n: int, on_avx2: list[int], on_avx512: list[int], rng: np.random.Generator
) -> None:
    for isa, lanes in (("avx2", on_avx2), ("avx512", on_avx512)):
        after = vectorized(quantized(n), Target(isa))
        assert [s.value.lanes for s in walk(after) if isinstance(s, Store)] == lanes
        assert_same_meaning(quantized(n), after, rng)


def test_a_loop_that_carries_a_value_stays_serial() -> None:
    a, c = Buffer("a", F32, (8,)), Buffer("c", F32, (9,))
    j = Var("j")
    carried = Store(c, (t.as_expr(0),), c[0] + a[j])  # not a local
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
        b.store(a, (i * 8 + j,), 1.0)
    (outer,) = vectorize(module(b, a), AVX2).functions[0].body.body
    assert isinstance(outer, For) and outer.kind == "serial"
    assert isinstance(outer.body, Store) and outer.body.value.lanes == 8


def test_strides_are_found_through_bindings() -> None:
    a, c = Buffer("a", F32, (64,)), Buffer("c", F32, (64,))
    b = LoopBuilder()
    with b.loop("j", 0, 64, "vector") as j:
        at = b.let("at", 63 - j)
        back = b.let("back", 63 - at)
        b.store(c, (back,), a[63 - at])
    (loop,) = simplify(vectorized(module(b, a, c), AVX2), AVX2).functions[0].body.body
    assert isinstance(loop, For) and isinstance(loop.body, Store)
    value = loop.body.value
    assert isinstance(value, Load) and value.indices == loop.body.indices == (loop.var,)
    assert loop.step == 8 and loop.end == Const(64, S64)


def test_an_index_that_all_lanes_load_does_not_halve_the_vectors(rng: np.random.Generator) -> None:
    x, at = Buffer("x", F32, (4, 32)), Buffer("at", S64, (1,))
    y = Buffer("y", F32, (32,))
    b = LoopBuilder()
    with b.loop("j", 0, 32, "vector") as j:
        row = b.let("row", t.minimum(t.maximum(at[0], 0), 3))
        b.store(y, (j,), x[row, j])
    before = Module((b.function("f", (x, at, y)),))
    after = vectorized(before, AVX2)
    loads = [n for n in walk(after) if isinstance(n, Load) and n.buffer.name == "x"]
    assert {load.lanes for load in loads} == {8}
    assert_same_meaning(before, after, rng)


def test_hints_name_each_line_of_contiguous_lanes(golden: Golden) -> None:
    """Lanes that lie apart have none; where no lane moves there is one."""
    text = """\
def f(a: f32[256], b: f32[256], c: f32[256]):
    for i in vector(0, 64):
        prefetch(a.at(i + 64), 1)
        prefetch(b.at(i * 4))
        prefetch(b.at(7), 0)
        c[i] = exp(a[i])
"""
    after = vectorized(parse_module(text), AVX2)
    golden(print_module(after))
    assert parse_module(print_module(after)) == after
