#!/usr/bin/env bash
# openvino 2026.4.1: Mod with fmod=1 is 0 where the quotient has more bits than a float.
#
# C's fmod, which the attribute stands for, is exact: the remainder of two floats is a float, whatever the quotient is.
#
# Seen: OpenVINO computes x - y * trunc(x / y) in floats. The remainder of 1e30 and 7, which is 1, and that of 5e9 and 3,
# which is 2, are 0. Angles in degrees are the remainder of a growing number and 360.
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


x, y = np.array([1e30, -1e30, 5e9, 7.5], np.float32), np.array([7, 7, 3, 2], np.float32)
expected, found = both("(float[4] x, float[4] y) => (float[4] z) { z = Mod<fmod=1>(x, y) }", x=x, y=y)
assert expected.tolist() == np.fmod(x, y).tolist() == [1, -1, 2, 1.5]
assert found.tolist() == [0, 0, 0, 1.5], "the behavior has changed"
PYTHON
