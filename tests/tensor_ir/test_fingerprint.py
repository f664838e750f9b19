"""The hash of what a function computes: names do not count, everything else does."""

from __future__ import annotations

import pytest

from graphc.tensor_ir.fingerprint import fingerprint
from graphc.tensor_ir.parser import parse_module

TEXT = """
def f(x: f32[8, 4], y: f32[8, 4], n: s64):
    for i in parallel(0, 8):
        acc: f32[4]
        for j in vector(0, 4):
            t = x[i, j] * 2.0
            y[i, j] = max(t, 0.0) + f32(i)
"""


def hash_of(text: str) -> str:
    return fingerprint(parse_module(text).functions[0])


def test_names_do_not_count() -> None:
    other = TEXT.replace("x", "image").replace("y:", "out:").replace("y[", "out[")
    other = other.replace("t =", "scaled =").replace("(t,", "(scaled,").replace("def f(", "def g(")
    other = other.replace("maimage", "max")
    assert other != TEXT and hash_of(other) == hash_of(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0", "3.0"),
        ("0.0", "-0.0"),
        ("parallel", "serial"),
        ("x: f32[8, 4]", "x: f32[8, 5]"),
        ("x[i, j]", "y[i, j]"),
        ("max", "min"),
        ("acc: f32[4]", "acc: f32[5]"),
        (", n: s64", ""),
        ("x[i, j] * 2.0", "2.0 * x[i, j]"),
    ],
)
def test_everything_else_does(old: str, new: str) -> None:
    changed = TEXT.replace(old, new).replace("serial(0, 8)", "range(0, 8)")
    assert changed != TEXT and hash_of(changed) != hash_of(TEXT)


def test_a_deep_expression_is_no_limit() -> None:
    from graphc.base.dtypes import F32
    from graphc.tensor_ir import builder as t
    from graphc.tensor_ir.nodes import Binary, Block, Buffer, Expr, Function, Store

    x = Buffer("x", F32, (1,))
    value: Expr = x[[0]]
    for _ in range(5000):
        value = Binary("add", value, x[[0]])
    assert len(fingerprint(Function("f", (x,), Block((Store(x, (t.ZERO,), value),))))) == 64
