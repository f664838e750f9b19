"""Functions of several vectors at once have the bits that they have one vector at a time."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import joint_vectors
from graphc.tensor_ir.joint_vectors import chained_together

X = t.const(0.5, F32)


def one_op(op: str, rows: int, columns: int) -> Graph:
    graph = Graph(op)
    x = graph.make_input(LogicalTensor(F32, (rows, columns)), "x")
    attrs = {"axis": -1} if op == "softmax" else {}
    graph.make_output(graph.make(op, [x], attrs).outputs[0])
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx2", pytest.param("avx512", marks=pytest.mark.isa("avx512f"))])
@pytest.mark.parametrize(
    ("op", "rows", "columns"),
    [("tanh", 1, 7), ("tanh", 1, 129), ("tanh", 1, 95), ("sigmoid", 3, 67), ("softmax", 2, 141)],
)
def test_one_vector_at_a_time_has_the_same_bits(
    op: str, rows: int, columns: int, isa: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)
    joint = graphc.compile(one_op(op, rows, columns), target=isa, threads=1, cache=False)(x)
    monkeypatch.setattr(joint_vectors, "CHAINED", 1)
    alone = graphc.compile(one_op(op, rows, columns), target=isa, threads=1, cache=False)(x)
    np.testing.assert_array_equal(joint, alone)


@pytest.mark.parametrize(
    ("names", "isa", "vectors"),
    [
        (("tanh",), "avx2", 4),
        (("tanh",), "avx512", 4),
        (("exp",), "avx2", 4),
        (("exp",), "avx512", 1),
        (("exp", "log"), "avx512", 4),
        (("exp", "log", "tanh"), "avx2", 1),
        ((), "avx2", 1),
    ],
)
def test_few_functions_are_computed_for_four_vectors(
    names: tuple[str, ...], isa: str, vectors: int
) -> None:
    value = X
    for name in names:
        value = t.call(name, value)
    assert chained_together(value, Target(isa)) == vectors
