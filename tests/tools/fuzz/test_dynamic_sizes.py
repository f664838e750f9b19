"""Random graphs with a dynamic size: the dynamic size, and that wrong results of such models are found."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from graphc import cli
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.computation import Pointwise
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup
from graphc.tensor_ir import builder as t
from graphc.tools.fuzz.case import Case, Setting
from graphc.tools.fuzz.check import check
from graphc.tools.fuzz.dynamic_sizes import MAX_SIZES, arrays_at, sizes_to_try, with_dynamic_size


def network(rows: int = 6) -> Graph:
    """relu(x @ w) as one row; the constant also has a 5."""
    graph = Graph("network")
    x = graph.make_input(LogicalTensor(F32, (rows, 5)), "x")
    w = graph.make_constant(np.ones((5, 4), np.float32), "w")
    y = graph.make("relu", [graph.make("matmul_core", [x, w]).outputs[0]]).outputs[0]
    graph.make_output(graph.make("reshape", [y], {"shape": (rows * 4,)}).outputs[0], "y")
    return graph


def test_a_size_is_dynamic_wherever_it_is_the_inputs() -> None:
    found = with_dynamic_size(network())
    assert found is not None
    graph, number = found
    n = size(Symbol("N"))
    assert number == 6
    assert graph.inputs[0].outputs[0].details.plain_dims == (n, 5)
    assert graph.outputs[0].inputs[0].details.plain_dims == (4 * n,)


def test_graphs_whose_sizes_are_all_needed_stay_closed() -> None:
    graph = Graph("closed")
    x = graph.make_input(LogicalTensor(F32, (3,)), "x")
    c = graph.make_constant(np.ones(3, np.float32), "c")
    graph.make_output(graph.make("add", [x, c]).outputs[0], "y")
    assert with_dynamic_size(graph) is None


def test_sizes_are_the_one_it_had_its_neighbors_and_others() -> None:
    assert sizes_to_try(7, least=0)[:2] == [7, 0]
    for number in (2, 7, 64):
        sizes = sizes_to_try(number)
        assert sizes[0] == number and number + 1 in sizes and len(sizes) == MAX_SIZES
        assert min(sizes) >= 1 and len(set(sizes)) == len(sizes)


def test_arrays_have_the_values_that_were_given() -> None:
    (array,) = arrays_at(network(9), [np.arange(30, dtype=np.float32).reshape(6, 5)])
    assert array.shape == (9, 5) and set(array.reshape(-1)) <= set(range(30))
    scalar = Graph("scalar")
    scalar.make_input(LogicalTensor(F32, ()), "x")
    assert arrays_at(scalar, [np.full((), 3, np.float32)])[0].shape == ()


def test_a_wrong_result_of_dynamic_sizes_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(network(), [np.ones((6, 5), np.float32)], Setting(threads=1, routes=("dynamic",)))
    assert check(case).kind == "right" and not check(case).refusals
    relu: Any = lookup("relu")
    right = relu.computation

    def computation(op):  # type: ignore[no-untyped-def]
        if op.inputs[0].details.is_known:
            return right(op)
        return Pointwise(lambda reads, index: reads[0](index) + t.const(1, F32))

    monkeypatch.setattr(relu, "computation", computation)
    outcome = check(case)
    assert outcome.kind == "wrong" and outcome.stage == "dynamic at 6 for 6"
    assert outcome.message.startswith("result 0 is exact, and has 6.0 instead of 5.0: ")


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "dev",
        "fuzz",
        "--dynamic",
        "--seed",
        "3",
        "--count",
        "3",
        "--jobs",
        "1",
        "--shrink",
        "0",
    ]
    assert cli.main([*words, "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 3
