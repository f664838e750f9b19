"""Functions of several vectors at once have the bits that they have one vector at a time."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dtypes import F32
from graphc.codegen.aot import assembly
from graphc.codegen.llvm_types import IN_ORDER
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import joint_vectors
from graphc.tensor_ir.joint_vectors import chained_together, keeps_order
from graphc.tensor_ir.nodes import Buffer, Load, Var
from graphc.tools.hot_loop.find import hot_loop

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


def test_a_chain_of_multiply_adds_runs_on_four_vectors() -> None:
    """The division of a softmax is one; a chain that loads more values needs the registers for them."""
    part = Load(Buffer("part", F32, (64,)), (Var("i"),))
    fused = t.fma(t.fma(X, part, X), X, X)
    assert chained_together(fused, Target("avx2")) == 4
    assert chained_together(t.fma(fused, part, X), Target("avx2")) == 1
    assert chained_together(t.fma(X, part, X), Target("avx2")) == 1


@pytest.mark.parametrize(
    ("names", "isa", "kept"),
    [
        (("exp",), "avx2", True),
        (("exp", "erf"), "avx2", True),
        (("exp", "tanh"), "avx2", False),  # its division should begin early
        (("exp",), "avx512", False),  # has the registers
        ((), "avx2", False),
    ],
)
def test_few_registers_hold_functions_in_the_order_written(
    names: tuple[str, ...], isa: str, kept: bool
) -> None:
    value = X
    for name in names:
        value = t.call(name, value)
    assert keeps_order(value, Target(isa)) == kept


def test_the_exponentials_of_a_softmax_are_not_spilled() -> None:
    """In the order of LLVM's scheduler, sums and powers of four vectors wait on the stack."""
    made = compile_stages(one_op("softmax", 64, 1024), Target("avx2", "x86-64-v3", "+avx2,+fma"))
    target = made.request.target
    text = assembly(made.llvm_ir, target)
    assert hot_loop(text, target).spills <= 4
    assert hot_loop(assembly(made.llvm_ir.replace(f'"{IN_ORDER}"', ""), target), target).spills > 4
