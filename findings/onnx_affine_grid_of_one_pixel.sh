#!/usr/bin/env bash
# onnx 1.23.2, onnxruntime 1.32.0, openvino 2026.4.1: AffineGrid with align_corners over an axis of one pixel.
#
# With align_corners, the outermost pixels of an axis lie at -1 and 1. One pixel is both, and the specification does not
# say where it lies.
#
# Seen: the reference evaluator puts it at -1, after a warning of a division by zero, and ONNX Runtime at 1. OpenVINO puts
# it at 0, and its grid has two pixels on that axis instead of one.
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
from onnx.reference import ReferenceEvaluator

TEXT = """<ir_version: 9, opset_import: ["": 20]> g (float[1,2,3] theta, int64[4] size) => (float[1,H,W,2] grid)
    { grid = AffineGrid<align_corners=1>(theta, size) }"""
model = onnx.parser.parse_model(TEXT).SerializeToString()
identity = np.array([[[1, 0, 0], [0, 1, 0]]], np.float32)
core = openvino.Core()
compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
for size in ([1, 1, 1, 3], [1, 1, 3, 1], [1, 1, 1, 1]):
    arrays = {"theta": identity, "size": np.array(size, np.int64)}
    by_reference = ReferenceEvaluator(model).run(None, arrays)[0]
    by_runtime = session.run(None, arrays)[0]
    by_openvino = compiled(arrays)[0]
    print(size, by_reference.tolist(), by_runtime.tolist(), by_openvino.tolist())
    height, width = size[2:]
    assert by_reference.shape == by_runtime.shape == (1, height, width, 2)
    for axis, pixels in ((0, width), (1, height)):
        if pixels == 1:
            found = [np.unique(grid[..., axis]).tolist() for grid in (by_reference, by_runtime, by_openvino)]
            assert found == [[-1.0], [1.0], [0.0]], "the behavior has changed"
    assert by_openvino.shape == (1, max(height, 2), max(width, 2), 2), "the behavior has changed"
PYTHON
