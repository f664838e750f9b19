"""Axes that are merged into one loop."""

from __future__ import annotations

import pytest

from graphc.graph_ir.templates.merged_axes import merged_axes
from graphc.tensor_ir.nodes import For, Var
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.visitor import walk_statements


def loops_of(index: str, dims: tuple[int, ...], value: str = "v") -> list[tuple[str, int]]:
    text = (
        "def f(x: s64[4096], y: s64[4096]):\n"
        "    for i in range(0, 4):\n        for j in range(0, 4):\n            for k in range(0, 4):\n"
        f"                v = x[{index}]\n                y[i * 28 + j * 7 + k] = {value}\n"
    )
    (function,) = parse_module(text).functions
    *_, inner = [s for s in walk_statements(function.body) if isinstance(s, For)]
    found = merged_axes([Var("i"), Var("j"), Var("k")], dims, [inner.body])
    return [(var.name, int(size)) for var, size in zip(found.loops, found.sizes, strict=True)]


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("i * 28 + j * 7 + k", [("k", 84)]),
        ("i * 28 + j * 8 + k", [("i", 3), ("j", 4), ("k", 7)]),
        ("0", [("k", 84)]),
        ("i * 28 + j * 7 + min(k, 5)", [("j", 12), ("k", 7)]),
    ],
)
def test_steps_of_all_operands_decide(index: str, expected: list[tuple[str, int]]) -> None:
    assert loops_of(index, (3, 4, 7)) == expected


def test_an_index_that_is_a_value_keeps_its_axis() -> None:
    assert loops_of("i * 28 + j * 7 + k", (3, 4, 7), "v + k") == [("j", 12), ("k", 7)]


def test_axes_of_one_element_need_no_loop() -> None:
    assert loops_of("j * 7 + k", (1, 4, 7)) == [("k", 28)]
    assert merged_axes([Var("i")], (1,), []).sizes == (1,)
    assert merged_axes([], (), []).sizes == ()
