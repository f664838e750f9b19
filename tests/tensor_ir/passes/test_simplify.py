from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.base.dtypes import S64, USUAL
from graphc.targets.isa import Target
from graphc.tensor_ir.evaluate import compile_expr
from graphc.tensor_ir.nodes import Block, Buffer, Expr, Function, Let, Module, Store, Var
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.simplify import simplify
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.visitor import bound_names
from support.golden import Golden
from support.loop_programs import PROGRAMS
from support.loops import assert_same_meaning
from support.random_loops import random_expr, random_module

TARGET = Target("avx2")


def simplified(text: str) -> str:
    """The body of the only function after the pass, without its indentation."""
    lines = print_module(simplify(parse_module(text), TARGET)).splitlines()[1:]
    return "\n".join(line[4:] for line in lines)


HEADER = "def f(a: f32[64], c: f32[64], n: s64):\n"
# Name, body before, "->", body after.
CASES_TEXT = """
index arithmetic knows the loops
    for i in range(0, 4):
        for j in range(0, 16):
            c[(i * 16 + j) // 16 * 16 + j % 16] = 1.0
->
for i in range(0, 4):
    for j in range(0, 16):
        c[i * 16 + j] = 1.0

a loop without iterations goes
    for i in range(4, 4):
        c[i] = 1.0
    for i in range(n % 4, n % 8):
        c[i] = 1.0
->
for i in range(n % 4, n % 8):
    c[i] = 1.0

also where the ranges of its bounds say so
    for i in range(n % 8 + 3, n % 4):
        c[i] = 1.0
->
pass

bounds that might wrap are left alone
    for i in range(n, n - 1):
        c[i] = 1.0
    for i in range(n, n + 1):
        c[i] = 1.0
    if n < n + 1:
        c[0] = 1.0
->
for i in range(n, n - 1):
    c[i] = 1.0
for i_1 in range(n, n + 1):
    c[i_1] = 1.0
if n < n + 1:
    c[0] = 1.0

a loop of one trip is its body
    for i in range(n % 4 + 3, n % 4 + 4):
        c[i * 2] = 1.0
    for j in range(0, 8, 8):
        c[j] = 1.0
->
c[n % 4 * 2 + 6] = 1.0
c[0] = 1.0

a loop around nothing goes
    for i in range(0, n):
        for j in range(0, n):
            x = a[i]
->
pass

decided branches
    for i in range(0, 4):
        if i < 4:
            c[i] = 1.0
        else:
            c[i] = 2.0
        if i * 2 == 7 - i:
            c[i] = 3.0
        if i > 3:
            c[i] = 4.0
->
for i in range(0, 4):
    c[i] = 1.0
    if i * 2 == i * -1 + 7:
        c[i] = 3.0

empty branches
    if n < 3:
        pass
    if n < 4:
        c[0] = 1.0
    else:
        x = n
->
if n < 4:
    c[0] = 1.0

decided selections
    c[0] = select(1 < 2, a[0], a[1])
    c[1] = select(False, a[0], a[1])
->
c[0] = a[0]
c[1] = a[1]

constants
    c[0] = 0.1 + 0.2
    c[1] = f32(s8(-128) - s8(1)) * 2.0
    c[2] = f32(s32(7) // s32(0))
    c[3] = cast(f32, 2)
    c[4] = select((1.0 < f32("nan")) | True, neg(0.5), 0.0)
    c[5] = sqrt(2.0)
->
c[0] = 0.3
c[1] = 254.0
c[2] = 0.0
c[3] = 2.0
c[4] = -0.5
c[5] = 1.4142135

vector constants
    c[0] = load(a[0], 8) + (broadcast(1.0, 8) + broadcast(2.0, 8))
->
c[0] = load(a[0], 8) + broadcast(3.0, 8)

identities, none of which loses a sign or a NaN
    c[0] = a[0] * 1.0
    c[1] = a[0] + 0.0
    c[2] = a[0] - 0.0
    c[3] = a[0] / 1.0
    c[4] = a[0] * 0.0
    c[5] = f32(s32(a[0]) | s32(0))
->
c[0] = a[0]
c[1] = a[0] + 0.0
c[2] = a[0]
c[3] = a[0]
c[4] = a[0] * 0.0
c[5] = f32(s32(a[0]))

copies and dead bindings
    x = n
    y = x
    z = y * 2
    dead = z + 1
    c[y] = 1.0
->
c[n] = 1.0

locals that are never read
    x: f32[4]
    x[0] = a[0]
    y: f32[4]
    c[0] = 1.0
->
c[0] = 1.0

the range of a binding is known
    for i in range(0, 4):
        at = i * 4 + 3
        c[at % 16] = a[at // 16]
->
for i in range(0, 4):
    at = i * 4 + 3
    c[at] = a[0]

clamps
    for i in range(0, 64):
        c[min(max(i, 0), 63)] = a[min(i, 62)]
->
for i in range(0, 64):
    c[i] = a[min(i, 62)]

indices inside of indices
    for i in range(0, 4):
        c[s64(a[i * 4 // 4]) + i - i] = 1.0
->
for i in range(0, 4):
    c[s64(a[i])] = 1.0

vectors of indices
    c[ramp(n, 4) + broadcast(3, 4)] = a[(broadcast(n, 4) + broadcast(1, 4)) * broadcast(2, 4)]
->
c[ramp(n + 3, 4)] = a[broadcast(n * 2 + 2, 4)]

names become unique
    for i in range(0, 2):
        x = a[i]
        c[i] = x * x
    for i in range(0, 2):
        x = a[i]
        c[i] = x * x
->
for i in range(0, 2):
    x = a[i]
    c[i] = x * x
for i_1 in range(0, 2):
    x_1 = a[i_1]
    c[i_1] = x_1 * x_1

inner blocks are spliced
    with block:
        x: f32[1]
        x[0] = a[0]
        c[0] = x[0]
    with block:
        x: f32[2]
        x[1] = a[0]
        c[1] = x[1]
->
x: f32[1]
x[0] = a[0]
c[0] = x[0]
x_1: f32[2]
x_1[1] = a[0]
c[1] = x_1[1]

a rounded number is not rounded again
    x = a[n]
    y = f32(bf16(x))
    c[n] = f32(bf16(y)) + f32(f16(y))
->
x = a[n]
y = f32(bf16(x))
c[n] = f32(bf16(x)) + f32(f16(y))
"""


def _cases() -> dict[str, tuple[str, str]]:
    cases = {}
    for part in CASES_TEXT.strip("\n").split("\n\n"):
        before, after = part.split("\n->\n")
        name, body = before.split("\n", 1)
        cases[name] = (body + "\n", after)
    return cases


CASES = _cases()


@pytest.mark.parametrize("name", CASES)
def test_rewrites(name: str) -> None:
    body, expected = CASES[name]
    assert simplified(HEADER + body) == expected


@pytest.mark.parametrize("name", CASES)
def test_rewrites_are_complete(name: str) -> None:
    once = simplify(parse_module(HEADER + CASES[name][0]), TARGET)
    assert simplify(once, TARGET) is once


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 2, 17])
def test_meaning_is_kept(program, n: int, rng: np.random.Generator) -> None:  # type: ignore[no-untyped-def]
    assert_same_meaning(program(n), simplify(program(n), TARGET), rng)


@pytest.mark.parametrize("program", PROGRAMS)
def test_text(program, golden: Golden) -> None:  # type: ignore[no-untyped-def]
    golden(print_module(simplify(program(1), TARGET)))


def value_of(e: Expr, n: int) -> bytes:
    env = {"n": n}
    with np.errstate(all="ignore"):
        result = np.asarray(compile_expr(e)(env), e.dtype.numpy)
    if e.dtype.is_float:
        # Any NaN is as good as another.
        result = np.where(np.isnan(result), e.dtype.numpy.type(np.nan), result)
    return result.tobytes()


@settings(max_examples=300)
@given(st.integers(0, 1 << 32))
def test_expressions_keep_their_value(seed: int) -> None:
    rnd = random.Random(seed)
    dtype, lanes = rnd.choice(USUAL), rnd.choice([1, 4])
    before = random_expr(seed, [Var("n")], dtype, lanes)
    out = Buffer("out", dtype, (lanes,))
    statement = Store(out, (Var("n"),), before)
    module = simplify(Module((Function("f", (out, Var("n")), Block((statement,))),)), TARGET)
    verify(module)
    (after,) = module.functions[0].body.body
    assert isinstance(after, Store)
    for n in (0, 1, -3, (1 << 63) - 1):
        assert value_of(after.value, n) == value_of(before, n)


@given(st.integers(0, 1 << 32))
def test_random_modules_stay_legal_and_their_names_unique(seed: int) -> None:
    after = verify(simplify(random_module(seed), TARGET))
    for function in after.functions:
        names = list(bound_names(function))
        assert len(names) == len(set(names))


def test_nothing_to_do_gives_the_same_object() -> None:
    module = parse_module(
        HEADER + "    for i in range(0, n):\n        x = a[i] * 2.0\n        c[i] = x + x\n"
    )
    assert simplify(module, TARGET) is module


def test_long_blocks_are_no_problem() -> None:
    lets = [Let(Var(f"x{i}"), Var("n")) for i in range(20_000)]
    out = Buffer("out", S64, (1,))
    last = Store(out, (Var("n"),), Var("x19999"))
    module = Module((Function("f", (out, Var("n")), Block((*lets, last))),))
    assert len(simplify(module, TARGET).functions[0].body.body) == 1


def test_a_size_may_be_0() -> None:
    """The size of an empty cache: rules that hold only from 1 on are left out."""
    text = """\
def f(c: f32[size_n], size_n: s64):
    for i in range(0, max((size_n + 7) // 8, 1)):
        if size_n == 0:
            c[i] = 1.0
        if size_n >= 0:
            c[i] = 2.0
"""
    assert (
        simplified(text)
        == """\
for i in range(0, max((size_n + 7) // 8, 1)):
    if size_n == 0:
        c[i] = 1.0
    c[i] = 2.0"""
    )
