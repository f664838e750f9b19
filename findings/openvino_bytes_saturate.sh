#!/usr/bin/env bash
# openvino 2026.4.1: sums and differences of uint8 saturate.
#
# ONNX's Add and Sub take uint8 since opset 14. The specification has no rule for overflow; NumPy, PyTorch, ONNX's
# reference and ONNX Runtime wrap modulo 256.
#
# Seen: in OpenVINO 1 - 2 is 0 and 255 + 2 is 255. Differences of neighboring bytes, which delta filters of images are
# made of, are lost.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnx.parser
import onnxruntime as ort
import openvino


def both(graph, **arrays):
    """The results of a graph of one node by ONNX Runtime, and by OpenVINO held to f32."""
    text = f'<ir_version: 10, opset_import: ["": 22]> g {graph}'
    model = onnx.parser.parse_model(text).SerializeToString()
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, arrays)[0]
    core = openvino.Core()
    found = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})(arrays)[0]
    print(f"{graph}: ONNX Runtime {expected.tolist()}, OpenVINO {found.tolist()}")
    assert found.dtype == expected.dtype
    return expected, found


given = {"x": np.array([1, 200, 255], np.uint8), "y": np.array([2, 100, 2], np.uint8)}
added = both("(uint8[3] x, uint8[3] y) => (uint8[3] z) { z = Add(x, y) }", **given)
subtracted = both("(uint8[3] x, uint8[3] y) => (uint8[3] z) { z = Sub(x, y) }", **given)
assert added[0].tolist() == [3, 44, 1] and subtracted[0].tolist() == [255, 100, 253]
assert added[1].tolist() == [3, 255, 255], "the behavior has changed"
assert subtracted[1].tolist() == [0, 100, 253], "the behavior has changed"
PYTHON
