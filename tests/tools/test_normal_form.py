"""The normal form: one computation, however a format writes it, is the same for `diff`; another is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from graphc.base.dtypes import F32, S64
from graphc.frontend import load
from graphc.frontend.formats import FORMATS
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.convert import convert
from graphc.tools.diff import diff
from graphc.tools.normal_form import normal_form
from support.lowered import integers
from support.process import ROOT


def made(graph: Graph, op_name: str, *inputs: GraphTensor, **attrs: object) -> GraphTensor:
    return graph.make(op_name, inputs, attrs).outputs[0]


def convnet() -> Graph:
    """Networks that writers spell differently: batch norm, hard ops, pools with ceil_mode, means, a matmul with
    a bias."""
    graph = Graph("convnet")
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> GraphTensor:
        return graph.make_constant(rng.standard_normal(shape, np.float32), name)

    x = graph.make_input(LogicalTensor(F32, (2, 3, 13, 13)), "x")
    y = made(graph, "convolution", x, weight("w", 8, 3, 3, 3))
    numbers = [weight(name, 8) for name in ("scale", "bias", "mean")]
    variance = graph.make_constant(rng.random(8, np.float32) + 1, "variance")
    y = made(graph, "hard_swish", made(graph, "batch_norm", y, *numbers, variance))
    y = made(graph, "max_pool", y, kernel=(3, 3), strides=(2, 2), ceil_mode=True)
    gate = made(
        graph,
        "hard_sigmoid",
        made(graph, "reduce_mean", y, axes=(2, 3), keep_dims=True),
        alpha=1 / 6,
    )
    y = made(graph, "reduce_mean", made(graph, "mul", y, gate), axes=(2, 3), keep_dims=False)
    matmul = made(graph, "matmul_core", y, weight("fc", 5, 8), transpose_b=True)
    matmul = made(graph, "add", matmul, graph.make_constant(np.zeros(5, np.float32), "none"))
    graph.make_output(
        made(graph, "div", matmul, graph.make_constant(np.full(5, 3, np.float32))), "y"
    )
    return graph


def embedding() -> Graph:
    """Indices that HLO wraps and clamps; a matmul of a batch by one matrix; attention."""
    graph = Graph("embedding")
    ids = graph.make_input(LogicalTensor(S64, (2, 6)), "ids")
    table = graph.make_constant(
        np.random.default_rng(0).standard_normal((9, 8), np.float32), "table"
    )
    y = made(graph, "gather", table, ids, axis=0)
    y = made(graph, "matmul_core", y, graph.make_constant(integers((8, 8), 0), "w"))
    scores = made(graph, "matmul_core", y, y, transpose_b=True)
    graph.make_output(made(graph, "matmul_core", made(graph, "softmax", scores, axis=-1), y), "y")
    return graph


def through(graph: Graph, target: str, folder: Path) -> Graph:
    """The graph written in a format and read back."""
    from graphc.graph_ir.text.printer import print_graph

    source = folder / "m.graph"
    source.write_text(print_graph(graph, full=True))
    done = convert(source, target, folder / f"out{FORMATS[target].suffix}")
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    constants = read_params(str(done.files[1])) if target == "ge" else {}
    return load(done.files[0], specs if target == "ge" else None, constants)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["onnx", "hlo", "pnnx", "tvm", "ge"])
@pytest.mark.parametrize("network", [convnet, embedding])
def test_a_conversion_is_the_same_network(network, target: str, tmp_path: Path) -> None:
    graph = network()
    found = diff(graph, through(graph, target, tmp_path))
    assert found.same, found.parts


def recurrent(steps: int) -> Graph:
    """A layer of LSTM: a loop, or so few iterations that they are unrolled."""
    rng = np.random.default_rng(0)
    shapes = {"W": (1, 16, 3), "R": (1, 16, 4), "B": (1, 32)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape, np.float32), name)
        for name, shape in shapes.items()
    ]
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]>
        lstm (float[{steps},2,3] x) => (float[{steps},1,2,4] y, float[1,2,4] c)
        {{ y, h, c = LSTM<hidden_size=4>(x, W, R, B) }}"""
    )
    model.graph.initializer.extend(weights)
    return load(model)


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["onnx", "hlo"])
@pytest.mark.parametrize("steps", [2, 50])
def test_loops_are_the_same(steps: int, target: str, tmp_path: Path) -> None:
    graph = recurrent(steps)
    assert ("while" in {op.op_name for op in normal_form(graph).ops}) == (steps == 50)
    written = through(graph, target, tmp_path)
    assert diff(graph, written).same
    x = np.random.default_rng(1).standard_normal((steps, 2, 3), np.float32)
    for got, expected in zip(normal_form(written).evaluate([x]), graph.evaluate([x]), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_another_loop_is_not_the_same() -> None:
    def counting(limit: int, step: int) -> Graph:
        graph = Graph("counting")
        first = graph.make_input(LogicalTensor(S64, ()), "first")
        condition, body = Graph("condition"), Graph("body")
        number = condition.make_input(LogicalTensor(S64, ()), "number")
        condition.make_output(
            made(condition, "lt", number, condition.make_constant(np.int64(limit)))
        )
        number = body.make_input(LogicalTensor(S64, ()), "other")
        body.make_output(made(body, "add", number, body.make_constant(np.int64(step))))
        graph.make_output(made(graph, "while", first, condition=condition, body=body), "y")
        return graph

    assert diff(counting(9, 2), counting(9, 2)).same
    for limit, step in ((9, 3), (8, 2)):
        (part,) = diff(counting(9, 2), counting(limit, step)).parts
        assert part.reason.startswith("body is" if step == 3 else "condition is")


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["onnx", "hlo", "ge"])
@pytest.mark.parametrize("model", ["mlp.onnx", "mha.onnx", "block.hlo"])
def test_the_examples(model: str, target: str, tmp_path: Path) -> None:
    graph = load(ROOT / "examples" / model)
    assert diff(graph, through(graph, target, tmp_path)).same


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("3.0", "3.0001"),
        ("alpha: 0.16666666666666666", "alpha: 0.17"),
        ("type=hard_swish", "type=relu"),
    ],
)
def test_another_network_is_not_the_same(old: str, new: str) -> None:
    from graphc.graph_ir.text.parser import parse_graph
    from graphc.graph_ir.text.printer import print_graph

    text = print_graph(convnet(), full=True)
    changed = text.replace(old, new)
    assert changed != text
    found = diff(convnet(), parse_graph(changed))
    assert not found.same and found.parts


def test_operands_of_commutative_ops_may_be_exchanged() -> None:
    def sums(names: str) -> Graph:
        graph = Graph("sums")
        x = {name: graph.make_input(LogicalTensor(F32, (3,)), name) for name in "ab"}
        total = made(graph, "add", *(x[name] for name in names))
        graph.make_output(made(graph, "sub", total, x["a"]), "y")
        return graph

    assert diff(sums("ab"), sums("ba")).same


def test_the_form_computes_the_same() -> None:
    graph = convnet()
    x = np.random.default_rng(1).standard_normal((2, 3, 13, 13), np.float32)
    (got,), (expected,) = normal_form(graph).evaluate([x]), graph.evaluate([x])
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    graph = embedding()
    ids = np.arange(12).reshape(2, 6) % 9
    (got,), (expected,) = normal_form(graph).evaluate([ids]), graph.evaluate([ids])
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize(("number", "same"), [(1, True), (2, False)])
def test_a_reciprocal_root_may_be_a_division(number: int, same: bool) -> None:
    graphs = [Graph("root"), Graph("root")]
    for graph in graphs:
        x = graph.make_input(LogicalTensor(F32, (2, 3)), "x")
        if graph is graphs[0]:
            y = made(graph, "rsqrt", x)
        else:
            above = graph.make_constant(np.float32(number), "above")
            y = made(graph, "div", above, made(graph, "sqrt", x))
        graph.make_output(y, "y")
    assert diff(*graphs).same is same


def test_what_is_not_equal_may_be_the_opposite_of_what_is() -> None:
    graphs = [Graph("unequal"), Graph("unequal")]
    for graph in graphs:
        x, y = (graph.make_input(LogicalTensor(F32, (2, 3)), name) for name in "xy")
        is_first = graph is graphs[0]
        z = made(graph, "ne", x, y) if is_first else made(graph, "not", made(graph, "eq", x, y))
        graph.make_output(z, "z")
    assert diff(*graphs).same


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.0, None), (None, 2.0), (0.0, 5.0)])
def test_a_clamp_may_be_a_maximum_and_a_minimum(low: float | None, high: float | None) -> None:
    graphs = [Graph("bounded"), Graph("bounded")]
    for graph in graphs:
        x = graph.make_input(LogicalTensor(F32, (2, 3)), "x")
        if graph is graphs[0]:
            (y,) = graph.make("clamp", [x], {"min": low, "max": high}).outputs
        else:
            y = x if low is None else made(graph, "max", x, graph.make_constant(np.float32(low)))
            other = 6.0 if high == 5.0 else high
            if other is not None:
                y = made(graph, "min", y, graph.make_constant(np.float32(other)))
        graph.make_output(y, "y")
    assert diff(*graphs).same is (high != 5.0)
