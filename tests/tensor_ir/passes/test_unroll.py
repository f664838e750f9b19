from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import InternalError
from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import For
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.unroll import unroll
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.visitor import walk
from support.golden import Golden
from support.loops import assert_same_meaning

TARGET = Target("avx2")
TILE = """def tile(a: f32[24], b: f32[64], c: f32[96]):
    acc: f32[6, 16]
    for k in range(0, 4):
        for v in unrolled(0, 2):
            row = load(b[k * 16 + v * 8], 8)
            for r in unrolled(0, 6):
                acc[r, v * 8] = broadcast(a[r * 4 + k], 8) * row
    for r in unrolled(0, 6, 2):
        old: f32[1]
        old[0] = acc[r, 0]
        c[r * 16] = old[0]
"""


def test_text(golden: Golden) -> None:
    golden(print_module(unroll(parse_module(TILE), TARGET)))


@pytest.mark.parametrize(
    ("begin", "end", "step"), [(0, 0, 1), (0, 1, 1), (3, 2, 1), (2, 7, 2), (-3, 4, 3)]
)
def test_meaning_is_kept(begin: int, end: int, step: int, rng: np.random.Generator) -> None:
    before = parse_module(
        "def f(a: s32[16], c: s32[16]):\n"
        f"    for i in unrolled({begin}, {end}, {step}):\n"
        "        x = a[i + 3]\n        y: s32[1]\n        y[0] = x + s32(i)\n"
        "        for j in unrolled(0, i + 4 - i - 1):\n            c[i + j + 3] = y[0] * s32(j)\n".replace(
            "i + 4 - i - 1", "3"
        )
    )
    after = unroll(before, TARGET)
    assert not any(isinstance(n, For) for n in walk(after))
    assert_same_meaning(before, after, rng)


def test_copies_bind_fresh_names() -> None:
    verify(unroll(parse_module(TILE), TARGET))


def test_without_unrolled_loops_the_module_is_the_same_object() -> None:
    module = parse_module("def f(c: f32[4]):\n    for i in range(0, 4):\n        c[i] = 1.0\n")
    assert unroll(module, TARGET) is module


def test_bounds_must_be_constants() -> None:
    module = parse_module("def f(n: s64):\n    for i in unrolled(0, n):\n        pass\n")
    with pytest.raises(InternalError, match="loop 'i': an unrolled loop takes constant bounds"):
        unroll(module, TARGET)


def test_large_tiles_are_quick() -> None:
    text = (
        "def f(c: f32[4096]):\n    for i in unrolled(0, 64):\n"
        "        for j in unrolled(0, 64):\n            c[i * 64 + j] = 1.0\n"
    )
    assert len(unroll(parse_module(text), TARGET).functions[0].body.body) == 4096
