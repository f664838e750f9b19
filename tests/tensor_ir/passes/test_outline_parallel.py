from __future__ import annotations

import numpy as np
import pytest

from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import For, Function, ParallelInvoke
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.outline_parallel import outline_parallel
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.visitor import walk
from support.golden import Golden
from support.loop_programs import PROGRAMS
from support.loops import assert_same_meaning

TARGET = Target("avx2")
PROGRAM_TEXTS = {
    "plain": """def f(a: f32[8], unused: f32[4], c: f32[8]):
    for i in parallel(0, 8):
        c[i] = a[i] * 2.0
""",
    "captures": """def f(c: s64[40], a: s64[5], n: s64):
    part: s64[4]
    part[0] = a[0]
    m = n % 4 + a[1] % 2
    for i in parallel(2, 10, 2):
        own: s64[1]
        own[0] = part[0] + m * i
        for j in range(0, 3):
            c[i * 4 + j] = own[0] + a[j]
""",
    "nested": """def f(c: s64[24]):
    for i in parallel(0, 2):
        for j in parallel(1, 4):
            for k in parallel(0, 8, 2):
                c[i * 12 + (j - 1) * 4 + k // 2] = i * 100 + j * 10 + k
""",
    "inside serial loops": """def f(c: s64[24]):
    for i in range(0, 2):
        for j in parallel(0, 12):
            c[i * 12 + j] = i + j
    if 1 < 2:
        for j in parallel(0, 2):
            for k in range(0, 2):
                for l in parallel(0, 3):
                    c[j * 6 + k * 3 + l] = j * k + l
""",
    "a varying count stays": """def f(c: s64[12], n: s64):
    for i in parallel(0, n):
        for j in parallel(0, 3):
            c[i * 3 + j] = i
""",
    "bounds that vary together are a count": """def f(c: s64[12], n: s64):
    for k in range(0, 3):
        for i in parallel(k * 3, k * 3 + 3):
            c[i] = k * n
""",
    "bounds that might wrap stay": """def f(c: s64[12], n: s64):
    for i in parallel(n, n + 3):
        c[i] = 5
""",
    "a vector from outside": """def f(a: f32[4], c: f32[32]):
    v = load(a[0], 4)
    for i in parallel(0, 8):
        c[i * 4] = v
""",
    "no trips": """def f(c: s64[4]):
    for i in parallel(3, 3):
        c[i] = 1
""",
}


@pytest.mark.parametrize("name", PROGRAM_TEXTS)
def test_text(name: str, golden: Golden) -> None:
    golden(print_module(outline_parallel(parse_module(PROGRAM_TEXTS[name]), TARGET)))


@pytest.mark.parametrize("name", PROGRAM_TEXTS)
def test_meaning_is_kept(name: str, rng: np.random.Generator) -> None:
    before = parse_module(PROGRAM_TEXTS[name])
    after = outline_parallel(before, TARGET)
    assert not any(isinstance(n, For) and n.kind == "parallel" for n in walk(after))
    assert_same_meaning(before, after, rng)


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_keep_their_meaning(program, rng: np.random.Generator) -> None:  # type: ignore[no-untyped-def]
    assert_same_meaning(program(17), outline_parallel(program(17), TARGET), rng)


def test_nested_loops_are_one_count() -> None:
    module = outline_parallel(parse_module(PROGRAM_TEXTS["nested"]), TARGET)
    (call,) = module.function("f").body.body
    assert isinstance(call, ParallelInvoke) and call.count == 24


def test_names_of_tasks_are_unique() -> None:
    text = PROGRAM_TEXTS["inside serial loops"] + "\n\ndef f__task0():\n    pass\n"
    names = [function.name for function in outline_parallel(parse_module(text), TARGET).functions]
    assert names == ["f__task0_1", "f__task1", "f", "f__task0"]


def test_without_parallel_loops_the_module_is_the_same_object() -> None:
    module = parse_module("def f(c: s64[4]):\n    for i in range(0, 4):\n        c[i] = 1\n")
    assert outline_parallel(module, TARGET) is module
    assert isinstance(module.functions[0], Function)
