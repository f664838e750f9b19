"""`graphc compile --run` on quantized models: roundings to either side of a boundary pass, real errors do not."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphc import cli
from graphc.graph_ir.ir.computation import Computation, Index, Pointwise, Read
from graphc.graph_ir.ir.registry import lookup
from graphc.tensor_ir.nodes import Expr
from support.cli_models import plant_wrong_relu

TYPES = {
    "f32": (TensorProto.FLOAT, np.float32),
    "f16": (TensorProto.FLOAT16, np.float16),
    "bf16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}
Capture = pytest.CaptureFixture[str]


def quantized_layers(folder: Path, name: str, opset: int = 22, rows: int = 8) -> str:
    """Three layers between QuantizeLinear and DequantizeLinear, with parameters of the type; the result is f32."""
    kind, dtype = TYPES[name]
    rng, sizes, last = np.random.default_rng(0), [64, 128, 96, 10], "h"
    nodes, weights = [helper.make_node("Cast", ["x"], ["h"], to=kind)], {}
    for i, (k, n) in enumerate(zip(sizes, sizes[1:], strict=False)):
        weights[f"w{i}"] = rng.integers(-127, 128, (k, n)).astype(np.int8)
        weights[f"b{i}"] = (rng.standard_normal(n) * 0.1).astype(dtype)
        weights[f"s{i}"] = np.array(0.02 if i == 0 else 0.012, dtype)
        weights[f"t{i}"] = np.array(1 / k / 16, dtype)
        nodes += [
            helper.make_node("QuantizeLinear", [last, f"s{i}", "zero"], [f"q{i}"]),
            helper.make_node("DequantizeLinear", [f"q{i}", f"s{i}", "zero"], [f"d{i}"]),
            helper.make_node("DequantizeLinear", [f"w{i}", f"t{i}"], [f"e{i}"]),
            helper.make_node("Gemm", [f"d{i}", f"e{i}", f"b{i}"], [f"g{i}"]),
            helper.make_node("Relu", [f"g{i}"], [f"r{i}"]),
        ]
        last = f"r{i}"
    weights["zero"] = np.array(0, np.int8)
    nodes.append(helper.make_node("Cast", [last], ["y"], to=TensorProto.FLOAT))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 10])],
        [numpy_helper.from_array(array, key) for key, array in weights.items()],
    )  # fmt: skip
    path = folder / "quantized.onnx"
    opsets = [helper.make_opsetid("", opset)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    )
    return str(path)


def run(path: str, capsys: Capture) -> tuple[int, str]:
    code = cli.main(["compile", path, "--run", "-q", "--no-cache"])
    return code, capsys.readouterr().out


@pytest.mark.exhaustive
@pytest.mark.parametrize("opset", [22, 24])
@pytest.mark.parametrize("name", TYPES)
def test_valid_models_are_right(name: str, opset: int, tmp_path: Path, capsys: Capture) -> None:
    code, out = run(quantized_layers(tmp_path, name, opset), capsys)
    assert code == 0 and out.startswith("ok: g "), out


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TYPES)
def test_a_wrong_activation_is_found(
    name: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_wrong_relu(monkeypatch)
    code, out = run(quantized_layers(tmp_path, name), capsys)
    assert code == 1 and out.startswith("MISMATCH: g "), out


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["f32", "f16"])
def test_rounding_to_the_wrong_neighbor_is_found(
    name: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each result is at most one step off, as on a boundary, but a quarter of a step away from it."""
    right = lookup("round_saturate").computation  # type: ignore[attr-defined]

    def computation(op: object) -> Computation:
        whole = right(op)

        def element(reads: list[Read], index: Index) -> Expr:
            return whole.element([lambda at: reads[0](at) - 0.25], index)

        return Pointwise(element)  # type: ignore[arg-type]

    monkeypatch.setattr(lookup("round_saturate"), "computation", computation)
    code, out = run(quantized_layers(tmp_path, name), capsys)
    assert code == 1 and out.startswith("MISMATCH: g "), out
