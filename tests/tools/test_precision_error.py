"""precision_error: how far a lower precision is from f32, and which op that comes from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from graphc.base.dtypes import F32, S32
from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.cli import main
from graphc.driver.compile_cache import CompileCache
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_request
from graphc.driver.request import CompileRequest
from graphc.frontend import load
from graphc.graph_ir.inspect.compare import relative_rms
from graphc.graph_ir.inspect.lowered_model import lowered_model
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.tools.precision_error import precision_error
from support.control import constant, made, make_while

MODEL = Path(__file__).parents[2] / "examples" / "mlp.onnx"


@pytest.mark.parametrize(
    ("precision", "least", "most"), [("bf16", 1e-3, 8e-3), ("int4", 0.02, 0.2)]
)
def test_errors_of_outputs_and_ops(precision: str, least: float, most: float) -> None:
    source = load(MODEL)
    options = CompileOptions(precision=precision, disabled=frozenset({"keep-f32"}))
    ctx = LowerContext(Target("generic"), options)
    lowered, exact = lowered_model(source, ctx)
    assert exact.options.precision == "f32"
    x = np.random.default_rng(0).standard_normal((32, 13)).astype(np.float32)
    found = precision_error(source, lowered, {"x": x})
    assert least < found.outputs["y"] < most
    assert list(found.ops.values()) == sorted(found.ops.values(), reverse=True)
    assert all(least / 4 < error < most for error in found.ops.values())
    taken = {"bf16": {"fc1", "fc2", "fc3"}, "int4": {"fc2", "fc3"}}[precision]
    assert set(found.ops) == taken and set(found.kept) == {"fc1", "fc2", "fc3"} - taken


def test_compare_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(MODEL), "--precision", "int8", "-q"]) == 0
    printed = capsys.readouterr().out
    assert "int8: y differs from f32 by" in printed and "fc2 adds" in printed and "ok:" in printed


def test_explain_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(MODEL), "fc1", "--precision", "int4"]) == 0
    assert "stays f32: too small to gain" in capsys.readouterr().out


def test_precisions_have_keys_of_their_own(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    for _ in range(2):
        hits = [
            compile_request(
                CompileRequest(MODEL, Target("generic"), CompileOptions(precision=p), cache=cache)
            ).from_cache
            for p in ("f32", "bf16")
        ]
    assert hits == [True, True]
    assert len(list(tmp_path.rglob("*"))) > 2


def test_unknown() -> None:
    with pytest.raises(UserError, match="precision must be one of f32, bf16, f16, int8, int4, got"):
        CompileOptions(precision="fp8")


@pytest.mark.exhaustive
@pytest.mark.parametrize("precision", ["bf16", "int8", "int4"])
def test_models_whose_batch_is_dynamic(precision: str) -> None:
    proto = onnx.load(MODEL)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "B"
    model = compile_model(proto, precision=precision, threads=1, cache=False)
    x = np.random.default_rng(0).standard_normal((5, 13)).astype(np.float32)
    (wanted,) = load(proto, {"x": "f32[5,13]"}).evaluate([x])
    assert np.abs(model(x) - wanted).max() < 0.3 * np.abs(wanted).max()


def test_matmuls_inside_loops_are_lowered_too() -> None:
    graph, w = Graph("loop"), np.random.default_rng(0).standard_normal((64, 64), np.float32) / 8
    x = graph.make_input(LogicalTensor(F32, (8, 64)), "x")
    count = constant(graph, 0, S32)

    def condition(inner: Graph, i: GraphTensor, y: GraphTensor) -> list[GraphTensor]:
        return [made(inner, "lt", i, constant(inner, 40, S32))]

    def body(inner: Graph, i: GraphTensor, y: GraphTensor) -> list[GraphTensor]:
        y = made(inner, "tanh", made(inner, "matmul_core", y, constant(inner, w, F32)))
        return [made(inner, "add", i, constant(inner, 1, S32)), y]

    loop = make_while(graph, [count, x], condition, body)
    graph.make_output(loop.outputs[1], "y")
    arrays = [np.random.default_rng(1).standard_normal((8, 64), np.float32)]
    options = CompileOptions(precision="bf16", disabled=frozenset({"keep-f32"}))
    lowered, _ = lowered_model(graph, LowerContext(Target("generic"), options))
    stated = precision_error(graph, lowered, {"x": arrays[0]}).outputs["y"]
    native = compile_model(
        graph, precision="bf16", target="generic", threads=1, disabled={"keep-f32"}
    )(*arrays)
    assert 1e-3 < stated < 0.2
    assert relative_rms([native], graph.evaluate(arrays)) == pytest.approx(stated, rel=0.2)
