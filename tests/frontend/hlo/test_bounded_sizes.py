"""Sizes of which HLO text has a bound, `f32[<=8,4]`: open, named or fixed by the caller, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.frontend import load
from graphc.graph_ir.rewriting.known_sizes import with_sizes
from support.hlo_text import module, one_op

BODY = """x = f32[<=8,4] parameter(0)
y = f32[<=8,4] parameter(1)
one = f32[] constant(1)
ones = f32[8,4] broadcast(one), dimensions={}
positions = f32[8,4] iota(), iota_dimension=0
sum = f32[<=8,4] add(x, ones)
scaled = f32[<=8,4] multiply(positions, sum)
flat = f32[<=32] reshape(scaled)
again = f32[<=8,2,2] reshape(flat)
transposed = f32[2,<=8,2] transpose(again), dimensions={1,0,2}
row = f32[4] constant({1, 2, 3, 4})
rows = f32[<=8,4] broadcast(row), dimensions={1}
n = s32[] get-dimension-size(x), dimensions={0}
cut = f32[<=8,4] set-dimension-size(rows, n), dimensions={0}
other = f32[<=8,4] subtract(cut, y)
spread = f32[3,<=8,4] broadcast(other), dimensions={1,2}
both = f32[<=16,4] concatenate(x, y), dimensions={0}
ROOT t = (f32[2,<=8,2], f32[3,<=8,4], s32[], f32[<=16,4]) tuple(transposed, spread, n, both)"""


@pytest.mark.parametrize("size", [1, 5, 8])
def test_what_follows_from_a_bound(size: int) -> None:
    """Values of the bound's size are cut where they meet dynamic ones; two that must be equal are one size."""
    graph = load(module(BODY).encode())
    assert [str(op.outputs[0].details) for op in graph.inputs] == ["f32[x_0,4]"] * 2
    x, y = np.random.default_rng(0).standard_normal((2, size, 4)).astype(np.float32)
    transposed, spread, number, both = with_sizes(graph, {"x_0": size}).evaluate([x, y])
    rows = np.arange(size, dtype=np.float32)[:, None]
    wanted = (rows * (x + 1)).reshape(size, 2, 2).transpose(1, 0, 2)
    np.testing.assert_array_equal(transposed, wanted)
    row = np.arange(1, 5, dtype=np.float32)
    np.testing.assert_array_equal(spread, np.broadcast_to(row - y, (3, size, 4)))
    assert number == size and number.dtype == np.int32
    np.testing.assert_array_equal(both, np.concatenate([x, y]))


def test_one_model_runs_every_size() -> None:
    text = module(BODY).encode()
    with graphc.compile(text, threads=1) as model, graphc.compile(text, threads=1, inputs={
        "x": "f32[5,4]", "y": "f32[5,4]"}) as fixed:  # fmt: skip
        x, y = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)
        assert [a.tobytes() for a in model(x, y)] == [a.tobytes() for a in fixed(x, y)]


def test_parts_of_a_complex_number_have_one_size() -> None:
    body = """z = c64[<=8] parameter(0)
ROOT w = c64[<=8] multiply(z, z)"""
    graph = load(module(body).encode())
    assert [str(op.outputs[0].details) for op in graph.inputs] == ["f32[z_0]"] * 2


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("f32[9,4]", "a size must be within its bound"),
        ("f32[N=1..9,4]", "a size must be within its bound"),
        ("f32[5,3]", "fixed sizes must agree"),
        ("f16[5,4]", "dtype and number of axes must agree"),
        ("f32[5]", "dtype and number of axes must agree"),
    ],
)
def test_specs_that_contradict_the_text(spec: str, message: str) -> None:
    with pytest.raises(graphc.UserError, match=message):
        load(one_op(["f32[<=8,4]"], "f32[<=8,4]", "negate(p0)").encode(), {"p0": spec})


def test_names_and_ranges_of_the_caller() -> None:
    text = one_op(["f32[<=8,4]"], "f32[<=8,4]", "negate(p0)").encode()
    for spec, wanted in (("f32[N,4]", "1..8"), ("f32[N=0..6,4]", "0..6")):
        (size, _) = load(text, {"p0": spec}).inputs[0].outputs[0].details.plain_dims
        assert size.symbols[0].range_text == wanted


@pytest.mark.parametrize(
    ("shapes", "result", "op"),
    [
        (["f32[<=8,4]", "f32[<=6,4]"], "f32[<=8,4]", "add(p0, p1)"),
        (["f32[<=8,4]", "f32[6,4]"], "f32[<=8,4]", "add(p0, p1)"),
        (["f32[<=8,<=4]"], "f32[<=4,<=8]", "reshape(p0)"),
    ],
)
def test_sizes_that_cannot_be_equal(shapes: list[str], result: str, op: str) -> None:
    with pytest.raises(graphc.UserError, match="must have"):
        load(one_op(shapes, result, op).encode())
