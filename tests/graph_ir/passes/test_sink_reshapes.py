from __future__ import annotations

import pytest

from graphc.graph_ir.passes.eliminate_common import eliminate_common
from graphc.graph_ir.passes.sink_reshapes import sink_reshapes
from support.expressions import expression_of, graph_from
from support.graphs import run_pass

SHAPES = {"w": (3, 4), "p": (2, 4, 6), "b": (3, 1, 1), "r": (2, 3, 2, 3), "row": (1, 1, 1, 3)}
C = "matmul_core(w, p)"
Y = f"reshape({C}, shape=(2, 3, 2, 3))"
B = "reshape(b, shape=(3, 1))"

P = "matmul_core(m, n)"
M = f"reshape({P}, shape=(1, 2, 3, 5))"
SHAPES |= {"m": (6, 4), "n": (4, 5), "bias": (5,), "full": (1, 2, 3, 5), "some": (1, 2, 1, 5)}

NORMALIZED = f"sub({C}, reduce_sum({C}, axes=(2,), keep_dims=True))"

CASES = [
    (f"relu({Y})", f"reshape(relu({C}), shape=(2, 3, 2, 3))"),
    (f"relu(add({Y}, b))", f"reshape(relu(add({C}, {B})), shape=(2, 3, 2, 3))"),
    (f"add(b, {Y})", f"reshape(add({B}, {C}), shape=(2, 3, 2, 3))"),
    (f"add({Y}, c(1.0))", f"reshape(add({C}, c(1.0)), shape=(2, 3, 2, 3))"),
    (f"add({Y}, r)", f"reshape(add({C}, reshape(r, shape=(2, 3, 6))), shape=(2, 3, 2, 3))"),
    (f"add({Y}, {Y})", f"reshape(add({C}, {C}), shape=(2, 3, 2, 3))"),
    (f"reshape({Y}, shape=(2, 3, 6))", C),
    (f"add({Y}, row)", f"add({Y}, row)"),
    ("relu(reshape(p, shape=(2, 4, 2, 3)))", "relu(reshape(p, shape=(2, 4, 2, 3)))"),
    (f"add(reshape({C}, shape=(2, 3, 6)), c(1.0))", f"add({C}, c(1.0))"),
    (f"relu(reshape({C}, shape=(6, 6)))", f"reshape(relu({C}), shape=(6, 6))"),
    (f"add({M}, bias)", f"reshape(add({P}, bias), shape=(1, 2, 3, 5))"),
    (f"add({M}, full)", f"reshape(add({P}, reshape(full, shape=(6, 5))), shape=(1, 2, 3, 5))"),
    (f"add({M}, some)", f"add({M}, some)"),
    (f"reshape(reshape({P}, shape=(2, 3, 5)), shape=(3, 2, 5))", f"reshape({P}, shape=(3, 2, 5))"),
    (f"relu(reshape({NORMALIZED}, shape=(2, 3, 2, 3)))", f"reshape(relu({NORMALIZED}), shape=(2, 3, 2, 3))"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), CASES)
def test_cases(before, after):
    graph = graph_from(before, **SHAPES)
    wanted = expression_of(graph_from(after, **SHAPES))
    assert run_pass(sink_reshapes, graph) == (before != after)
    assert expression_of(graph) == wanted
    assert not run_pass(sink_reshapes, graph)


def test_rows_that_are_reduced_keep_their_shape():
    graph = graph_from(f"sub({M}, reduce_sum({M}, axes=(3,), keep_dims=True))", **SHAPES)
    run_pass(eliminate_common, graph)
    assert not run_pass(sink_reshapes, graph)


def test_matmuls_of_two_shapes_do_not_take_turns():
    shapes = {"m": (6, 4), "n": (4, 5), "a": (2, 3, 4), "b": (2, 4, 5)}
    direct = "matmul_core(a, b)"
    reshaped = "reshape(matmul_core(m, n), shape=(2, 3, 5))"
    for text in (f"relu(add({reshaped}, {direct}))", f"relu(add({direct}, {reshaped}))"):
        graph = graph_from(text, **shapes)
        assert not run_pass(sink_reshapes, graph)
    graph = graph_from(f"add({reshaped}, reshape(matmul_core(p, q), shape=(2, 3, 5)))",
                       **shapes, p=(3, 4), q=(4, 10))  # fmt: skip
    assert not run_pass(sink_reshapes, graph)
