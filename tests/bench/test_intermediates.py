"""Values of other engines: each value of each node, in order, the same from all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from graphc.base.errors import UserError
from graphc.bench import intermediates
from graphc.bench.intermediates import engine_values
from support.onnx_models import model, node

NODES = [
    node("MatMul", "x w", "m"),
    node("Split", "m", "left right", num_outputs=2, axis=1),
    node("Add", "left right", "s"),
    node("Relu", "s", "y"),
]
X = np.random.default_rng(0).standard_normal((3, 4), np.float32)
MODEL = model(
    NODES, {"x": [3, 4]}, {"w": np.arange(16, dtype=np.float32).reshape(4, 4)}, opset=18
).SerializeToString()
MODULES = {"ort": "onnxruntime", "openvino": "openvino", "onnx-reference": "onnx"}


@pytest.mark.parametrize("chunk", [2, 16])
@pytest.mark.parametrize("engine", MODULES)
def test_every_value_in_order(engine: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(MODULES[engine])
    monkeypatch.setattr(intermediates, "CHUNK", chunk)
    found = list(engine_values(engine, MODEL, {"x": X}))
    assert [name for name, _, _ in found] == ["m", "left", "right", "s", "y"]
    assert [who.split()[0] for _, who, _ in found] == ["MatMul", "Split", "Split", "Add", "Relu"]
    values = {name: array for name, _, array in found}
    matmul = X @ np.arange(16, dtype=np.float32).reshape(4, 4)
    np.testing.assert_allclose(values["m"], matmul, rtol=1e-5)
    expected = np.maximum(matmul[:, :2] + matmul[:, 2:], 0)
    np.testing.assert_allclose(values["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("limit", "counts"), [(1 << 20, [1, 2, 2]), (48, [1] * 5)])
def test_runs_fetch_more_values_while_these_are_small(
    limit: int, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intermediates, "CHUNK", 1)
    monkeypatch.setattr(intermediates, "MAX_BYTES", limit)
    seen: list[int] = []

    def run(proto: Any, inputs: Any, wanted: Any) -> list[np.ndarray]:
        seen.append(len(wanted))
        return [np.zeros((3, 4), np.float32) for _ in wanted]

    found = list(intermediates._in_chunks(onnx.load_from_string(MODEL), {"x": X}, run))
    assert [name for name, _, _ in found] == ["m", "left", "right", "s", "y"] and seen == counts


def test_what_cannot_be_compared_is_told(tmp_path) -> None:
    with pytest.raises(UserError, match="engine 'tvm' is not known"):
        next(engine_values("tvm", MODEL, {}))
    with pytest.raises(UserError, match="^there is no file '[^']*none.onnx'; "):
        next(engine_values("ort", str(tmp_path / "none.onnx"), {}))
    (tmp_path / "text.param").write_text("7767517\n")
    with pytest.raises(UserError, match="take ONNX models only"):
        next(engine_values("ort", str(tmp_path / "text.param"), {}))
