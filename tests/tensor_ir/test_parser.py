from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.base.dtypes import F32, S64
from graphc.base.errors import UserError
from graphc.targets.isa import Target
from graphc.tensor_ir import pipeline
from graphc.tensor_ir.nodes import Binary, Block, Buffer, Const, Function, Let, Module, Unary, Var
from graphc.tensor_ir.parser import parse_function, parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from support.loop_programs import PROGRAMS
from support.random_loops import random_module


def assert_round_trip(module: Module) -> None:
    text = print_module(module)
    again = parse_module(text)
    assert again == module
    assert print_module(again) == text


@given(st.integers(0, 1 << 32))
def test_random_modules_come_back(seed: int) -> None:
    module = random_module(seed)
    verify(module)
    assert_round_trip(module)


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_stage_comes_back(program) -> None:  # type: ignore[no-untyped-def]
    pipeline.run(program(19), Target("avx2"), lambda _i, _n, module, _c: assert_round_trip(module))


def test_types_follow_from_names_and_literals() -> None:
    function = parse_function("def f(a: f32[4], n: s64):\n    x = n + 1\n    y = a[x] / 2.0\n")
    x = Var("x")
    a = Buffer("a", F32, (4,))
    assert function.params == (a, Var("n"))
    let = function.body.body[0]
    assert let == Let(x, Binary("add", Var("n"), Const(1, S64)))
    assert function.body.body[1].var.dtype == F32  # type: ignore[union-attr]


def test_signs_belong_to_literals() -> None:
    text = (
        "def f(n: s64):\n    a = -3\n    b = neg(3)\n    c = -n\n    d = -(-3 - n)\n    e = - -n\n"
    )
    values = [let.value for let in parse_function(text).body.body]  # type: ignore[union-attr]
    n, three = Var("n"), Const(3, S64)
    assert values[:3] == [Const(-3, S64), Unary("neg", three), Unary("neg", n)]
    assert values[4] == Unary("neg", Unary("neg", n))


def test_hints_say_which_cache_they_are_for() -> None:
    text = "def f(a: f32[4]):\n    prefetch(a.at(16))\n    prefetch(a.at(32), 1)\n"
    module = parse_module(text)
    assert [one.level for one in module.functions[0].body.body] == [2, 1]
    assert_round_trip(module)


def test_long_blocks_and_sums_are_read() -> None:
    body = "".join(f"    x{i} = {i}\n" for i in range(5000))
    assert len(parse_function("def f():\n" + body).body.body) == 5000
    total = parse_function("def f(n: s64):\n    x = " + " + ".join(["n"] * 200) + "\n")
    assert_round_trip(Module((total,)))


@pytest.mark.parametrize(
    "deep", ["(" * 150 + "n" + ")" * 150, "-" * 20000 + "n", "n" + " + n" * 20000, "(" * 5000]
)
def test_depth_is_no_crash(deep: str) -> None:
    try:
        parse_module(f"def f(n: s64):\n    x = {deep}\n")
    except UserError as error:
        assert str(error).startswith("Tensor IR text")


def test_an_empty_function_is_a_pass() -> None:
    assert_round_trip(Module((Function("f", (), Block(())),)))
    assert_round_trip(Module((Function("f", (), Block((Block(()),)), "nothing"),), "f"))


ERRORS = {
    "x = 1": "line 1: a function definition is expected",
    "def f(a):\n    pass": "line 1: 'a' needs a type such as f32[4, 8] or s64",
    "def f(a: f33[4]):\n    pass": "line 1: dtype 'f33' is not known",
    "def f():\n    x = y + 1": "line 2: 'y' must be a variable here",
    "def f():\n    x[0] = 1": "line 2: 'x' must be a buffer here",
    "def f(a: f32[4]):\n    while 1 < 2:\n     pass\n    else: pass": (
        "line 2: a statement of Tensor IR is expected, got While"
    ),
    "def f(a: f32[4]):\n    for i in over(0, 1):\n        pass": "line 2: a loop must go over one of range, parallel",
    "def f(a: f32[4]):\n    for i in range(0, 4):\n        x = i\n    y = x": "line 4: 'x' must be a variable here",
    "def f(n: s64):\n    x = n / 2": "line 2: floats must be divided by /, integers by //",
    "def f(n: s64):\n    x = n ** 2": "line 2: operators must be those of Tensor IR, got Pow",
    "def f(n: s64):\n    x = n if n else 0": "line 2: an expression of Tensor IR is expected, got IfExp",
    "def f(n: s64):\n    x = 1 < n < 3": "line 2: an expression of Tensor IR is expected, got Compare",
    'def f():\n    x = s32("seven")': "line 2: 'seven' is not a valid s32",
    "def f():\n    x = f64('seven')": "line 2: could not convert string to float: 'seven'",
    "def f():\n    x = s32(1.5)": "line 2: 1.5 is not a valid s32",
    "def f(a: f32[4]):\n    brgemm(a, a, a, m=1)": "line 2: brgemm takes C, A, B and m, n, k",
    "def f(a: f32[4]):\n    with a:\n        pass": "line 2: with takes block, or brgemm(...) as (row, col, acc)",
    "def f(a: f32[4]):\n    store(a[0], 1.0)": "line 2: store takes an address, a value and active=",
    "def f(a: f32[4]):\n    x = load(a)": "line 2: load takes an address, lanes and optionally active=",
    "def f(a: f32[4]):\n    prefetch(a.at(0), 3)": "line 2: prefetch takes one address, and 1 for a line in L1, 0",
    "@fast\ndef f():\n    pass": "line 2: a function may be @in_order, and nothing else",
    "def f(:": "line 1: invalid syntax",
    "def f():\n    x = \0": "source code string cannot contain null bytes",
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_name_the_line(text: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_module(text)
    assert ERRORS[text] in str(caught.value)


def test_parse_function_takes_one() -> None:
    with pytest.raises(UserError, match="one function is expected, got 2"):
        parse_function("def f():\n    pass\ndef g():\n    pass\n")
