#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.23.2: Resize by scales with coordinate_transformation_mode "align_corners".
#
# Five elements 0, 1, 2, 3, 4 times 1.5 give floor(7.5) = 7. The specification says that the coordinate is
# x_resized * (length_original - 1) / (length_resized - 1), and does not say whether length_resized is 7 or 7.5. The test
# data of the package onnx take 7.5, which misses what the mode is named for: that the last element is that of the input.
#
# Seen: ONNX Runtime takes 7, as PyTorch's interpolate does, and the last element is 4. onnx's reference evaluator takes
# 7.5, and it is 3.69: one valid file gives two results that differ in every element but the first.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node(
    "Resize", ["x", "", "scales"], ["y"], mode="linear", coordinate_transformation_mode="align_corners"
)
graph = helper.make_graph(
    [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 5])],
    [helper.make_empty_tensor_value_info("y")],
    [numpy_helper.from_array(np.array([1, 1, 1.5], np.float32), "scales")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
engine, reference = (run(None, {"x": x})[0].ravel() for run in (session.run, ReferenceEvaluator(model).run))
print("ONNX Runtime  ", engine.round(3).tolist())
print("onnx reference", reference.round(3).tolist())
np.testing.assert_allclose(engine, np.arange(7) * 4 / 6, rtol=1e-5)
np.testing.assert_allclose(reference, np.arange(7) * 4 / 6.5, rtol=1e-5)
PYTHON
