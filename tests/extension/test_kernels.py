"""Kernels of user code: called where they accept an op, checked, verified, and known to every process that compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.inspect.compare import difference
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.schedule.context import LowerContext
from graphc.lab.user_kernels import kernel
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.parser import parse_function
from graphc.tools.variant_program import try_variants
from graphc.tools.variants import model_variants
from support.check_op import random_array
from support.user_ops import accepts_rows, define_root_mean, graph_with, root_mean_rows

X = random_array("f32", (6, 21))


def notes(model: Any) -> list[str]:
    """Return the formula of each kernel, without its schedule."""
    return [call["note"].partition(" [pointwise")[0] for call in model.stats["calls"]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_kernel_runs_the_ops_it_accepts(jobs: int) -> None:
    define_root_mean()
    kernel("root_mean", when=accepts_rows)(root_mean_rows)
    for dims, called in (((6, 21), True), ((2, 3, 7), False)):
        graph = graph_with(dims=dims)
        model = graphc.compile(graph, threads=2, jobs=jobs, cache=False)
        x = random_array("f32", dims)
        assert difference(model(x), graph.evaluate([x])[0]).ok
        assert ("op [kernel root_mean_rows]" in notes(model)) == called


def test_neighbors_are_fused_among_themselves() -> None:
    define_root_mean(compose=None)
    kernel("root_mean")(root_mean_rows)
    graph = graph_with()
    model = graphc.compile(graph, threads=1, cache=False)
    assert notes(model) == [
        "before",
        "op [kernel root_mean_rows]",
        "after",
    ]
    assert difference(model(X), graph.evaluate([X])[0]).ok


def test_an_op_of_graphc_may_have_a_kernel_and_the_last_one_added_is_called() -> None:
    @kernel("relu")
    def first(b: Any, op: Any, x: Any, y: Any) -> None:
        raise AssertionError

    @kernel("relu", name="second")
    def anything(b: Any, op: Any, x: Any, y: Any) -> Any:
        return parse_function(
            "def f(in0: f32[6, 21], out0: f32[6, 21]):\n"
            "    for i in parallel(0, 6):\n"
            "        for j in vector(0, 21):\n"
            "            out0[i, j] = max(in0[i, j], 0.0)\n"
        )

    graph = Graph("m")
    x = graph.make_input(graphc.ops.LogicalTensor(F32, (6, 21)), "x")
    graph.make_output(graph.make("relu", [x], name="op").outputs[0], "y")
    model = graphc.compile(graph, cache=False)
    assert notes(model) == ["op [kernel second]"]
    np.testing.assert_array_equal(model(X), np.maximum(X, 0))


def test_an_operand_that_is_read_twice_is_one_buffer() -> None:
    @kernel("mul")
    def square(b: Any, op: Any, left: Any, right: Any, y: Any) -> None:
        assert left is right
        with b.loop("i", 0, 6) as i, b.loop("j", 0, 21, "vector") as j:
            b.store(y, (i, j), left[i, j] * right[i, j])

    graph = Graph("m")
    x = graph.make_input(graphc.ops.LogicalTensor(F32, (6, 21)), "x")
    graph.make_output(graph.make("mul", [x, x], name="op").outputs[0], "y")
    np.testing.assert_array_equal(graphc.compile(graph, cache=False)(X), X * X)


def test_a_kernel_knows_target_and_threads() -> None:
    seen = []

    @kernel("relu", when=lambda op, target: target.isa == "avx2")
    def known(b: Any, op: Any, x: Any, y: Any) -> None:
        seen.append((b.target.isa, b.threads))
        with b.loop("i", 0, 6) as i, b.loop("j", 0, 21, "vector") as j:
            b.store(y, (i, j), t.maximum(x[i, j], 0.0))

    graph = graph_with("neg")
    for isa in ("avx2", "avx512"):
        compile_stages(graph, target_for(isa), CompileOptions(threads=2))
    assert seen == [("avx2", 2)]


def variants_of(graph: Graph) -> list[Any]:
    ctx = LowerContext(target_for("native"), CompileOptions())
    trials = try_variants(model_variants(graph, ctx), ctx)
    return [trial for trial in trials if trial.variant.op.startswith("kernel_call")]


@pytest.mark.parametrize("alone", [False, True])
def test_verify_finds_a_wrong_kernel(alone: bool) -> None:
    define_root_mean(**({"compose": None} if alone else {}))
    kernel("root_mean", when=accepts_rows)(root_mean_rows)

    @kernel("root_mean", when=accepts_rows)
    def wrong(b: Any, op: Any, x: Any, scale: Any, y: Any) -> None:
        with b.loop("i", 0, x.shape[0]) as i, b.loop("j", 0, x.shape[1], "vector") as j:
            b.store(y, (i, j), x[i, j])

    found = {trial.variant.op: trial.difference.ok for trial in variants_of(graph_with())}
    assert found == {"kernel_call op.root_mean_rows": True, "kernel_call op.wrong": False}


def _returns_text(b: Any, op: Any, x: Any, scale: Any, y: Any) -> Any:
    return "def f(): ..."


def _out_of_types(b: Any, op: Any, x: Any, scale: Any, y: Any) -> None:
    b.store(y, (0, 0), t.const(1))


def _raises(b: Any, op: Any, x: Any, scale: Any, y: Any) -> None:
    raise IndexError("rows")


WRONG = {
    "raises": (
        _raises,
        "kernel '_raises' of root_mean 'op': it raised IndexError: rows; fix that function",
    ),
    "returns something": (
        _returns_text,
        "kernel '_returns_text' of root_mean 'op': it must return nothing, or a function of (in0: f32[6, 21], "
        "out0: f32[6, 21])",
    ),
    "is not legal": (
        _out_of_types,
        "kernel '_out_of_types' of root_mean 'op': its Tensor IR is not legal: ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_an_invalid_kernel_is_the_error_of_its_author(case: str) -> None:
    build, message = WRONG[case]
    define_root_mean()
    kernel("root_mean")(build)
    with pytest.raises(UserError) as caught:
        graphc.compile(graph_with(), cache=False)
    assert str(caught.value).startswith(message)
    assert case == "is not legal" or str(caught.value) == message


def test_bad_declarations_are_one_sentence() -> None:
    with pytest.raises(
        UserError, match=r"^kernel: its op must be defined, got 'rellu'; did you mean 'relu'\?$"
    ):
        kernel("rellu")
    with pytest.raises(
        UserError,
        match=r"^kernel: input is not an op that a kernel can compute; ",
    ):
        kernel("input")
    with pytest.raises(
        UserError, match=r"^kernel 'f' of relu: it must take \(b, op, x, result\), got \(x, y\)$"
    ):
        kernel("relu", name="f")(lambda x, y: None)
    with pytest.raises(
        UserError, match=r"^kernel 'f' of relu: when must take \(op, target\), got \(op\)$"
    ):
        kernel("relu", name="f", when=lambda op: True)(lambda b, op, x, y: None)  # type: ignore[misc]


def test_an_op_of_several_results_has_no_kernel() -> None:
    graphc.ops.define(
        "pair", "x and -x.", compose=lambda make, x: [make("copy", x), make("neg", x)]
    )
    kernel("pair", name="both")(lambda b, op, x, y: None)
    graph = Graph("m")
    x = graph.make_input(graphc.ops.LogicalTensor(F32, (3,)), "x")
    for tensor in graph.make("pair", [x], name="op").outputs:
        graph.make_output(tensor)
    with pytest.raises(
        UserError, match=r"^kernel 'both' of pair 'op': the op must have one result, got 2$"
    ):
        graphc.compile(graph, cache=False)
