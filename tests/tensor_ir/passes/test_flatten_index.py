from __future__ import annotations

import numpy as np
import pytest

from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Allocate, Buffer, Load, Slice, Store
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.flatten_index import flatten_index
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.visitor import walk
from support.golden import Golden
from support.loop_programs import PROGRAMS
from support.loops import assert_same_meaning

TARGET = Target("avx2")
TEXT = """def g(c: f32[3, 4, 8], s: f32[()]):
    for i in range(0, 3):
        for j in range(0, 4):
            c[i, j, 0] = load(c[i, j, 0], 8) + broadcast(s[()], 8)
            c[i, 3 - j, ramp(0, 4) * broadcast(2, 4)] = c[i, j, ramp(j, 4)]


def f(a: f32[2, 3, 4, 8], n: s64):
    acc: f32[2, 8]
    acc[1, 3] = 1.0
    g(a.at(1, 0, 0, 0), acc.at(1, 3))
"""


def test_text(golden: Golden) -> None:
    golden(print_module(flatten_index(parse_module(TEXT), TARGET)))


def test_all_buffers_are_flat_and_meaning_is_kept(rng: np.random.Generator) -> None:
    before = parse_module(TEXT)
    after = flatten_index(before, TARGET)
    used = [n.buffer for n in walk(after) if isinstance(n, Load | Store | Slice | Allocate)]
    params = [p for function in after.functions for p in function.params if isinstance(p, Buffer)]
    assert {len(buffer.shape) for buffer in [*used, *params]} == {1}
    assert_same_meaning(before, after, rng)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 17])
def test_programs_keep_their_meaning(program, n: int, rng: np.random.Generator) -> None:  # type: ignore[no-untyped-def]
    assert_same_meaning(program(n), flatten_index(program(n), TARGET), rng)


def test_flat_buffers_give_the_same_object() -> None:
    module = parse_module("def f(c: f32[4]):\n    x: f32[1]\n    x[0] = 2.0\n    c[1] = x[0]\n")
    assert flatten_index(module, TARGET) is module


def test_sizes_of_zero() -> None:
    module = flatten_index(parse_module("def f(c: f32[4, 0]):\n    pass\n"), TARGET)
    assert module.functions[0].params == (Buffer("c", module.functions[0].params[0].dtype, (0,)),)
