"""Loops in parts mean what the whole loop means, and no part asks where it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Block, Compare, For, Module
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.passes.simplify import simplify
from graphc.tensor_ir.split_loop import MAX_PARTS, split_loop
from graphc.tensor_ir.visitor import walk
from support.loops import assert_same_meaning

TARGET = Target("avx2")

BODIES = {
    "padded": ("i >= 3 and i - 3 < 20", "min(max(i - 3, 0), 19)", 3),
    "before": ("i - 6 >= 0", "max(i - 6, 0)", 2),
    "behind": ("20 > i", "min(i, 19)", 2),
    "reflected": ("i > -1", "min(max(i - 3, 3 - i), 38 - max(i - 3, 3 - i))", 3),
    "one element": ("i == 7", "min(i, 19)", 4),
    "all but one": ("i != 0", "min(i, 25)", 2),
    "reversed": ("22 - i <= 19", "min(max(22 - i, 0), 19)", 3),
    "every second": ("2 * i <= 21", "min(i, 25)", 2),
    "tiled": ("i < 26", "i % 10", 3),
    "blocks": ("i < 26", "i // 9", 3),
    "nothing to ask": ("i < 26", "i", 1),
    "another axis": ("r >= 1 and i < 26", "i", 1),
    "too often": ("i < 26", "i % 3", 1),
}


def module(condition: str, index: str) -> Module:
    text = " & ".join(f"({part})" for part in condition.split(" and "))
    return parse_module(
        "def f(a: s32[26], r: s64, y: s32[26]):\n"
        "    for i in range(0, 26):\n"
        f"        x = a[{index}]\n"
        f"        y[i] = select({text}, x, s32(-1))\n"
    )


def split(before: Module) -> tuple[Module, list[For]]:
    (function,) = before.functions
    (loop,) = function.body.body
    assert isinstance(loop, For)
    parts = [part for part in split_loop(loop) if isinstance(part, For)]
    return Module((replace(function, body=Block(tuple(parts))),)), parts


@pytest.mark.parametrize("name", BODIES)
def test_meaning_is_kept(name: str, rng: np.random.Generator) -> None:
    condition, index, count = BODIES[name]
    before = module(condition, index)
    whole, parts = split(before)
    assert len(parts) == count <= MAX_PARTS
    after = simplify(whole, TARGET)
    assert_same_meaning(before, after, rng)
    if "r " not in condition and count > 1:
        assert not any(isinstance(n, Compare) for n in walk(after)), "decided in every part"


def test_a_sum_stays_whole() -> None:
    text = (
        "def f(a: s32[26], y: s32[1]):\n    for i in range(0, 26):\n"
        "        y[0] = y[0] + select(i < 9, a[i], s32(0))\n"
    )
    assert len(split(parse_module(text))[1]) == 1


def test_an_open_loop_stays_whole() -> None:
    text = (
        "def f(a: s32[26], n: s64, y: s32[26]):\n    for i in range(0, n):\n"
        "        y[i] = select(i < 9, a[i], s32(0))\n"
    )
    assert len(split(parse_module(text))[1]) == 1
