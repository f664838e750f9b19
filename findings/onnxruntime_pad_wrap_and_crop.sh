#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.23.2: Pad of mode "wrap" with a negative number of pads on the other side.
#
# Five elements 0, 1, 2, 3, 4 get two in front and lose one at the end (pads = [2, -1]). Pad of opset 19 says that
# negative pads remove elements and that "wrap" continues the data around, not which comes first.
#
# Seen: ONNX Runtime removes first, so that the border is 2, 3 and the removed 4 is nowhere. The reference evaluator of
# the package onnx does not run it: its wrapped border is an index of numpy.pad, which takes no negative numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5]), helper.make_tensor_value_info("pads", TensorProto.INT64, [2])]
result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
graph = helper.make_graph([helper.make_node("Pad", ["x", "pads"], ["y"], mode="wrap")], "g", values, [result])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
feeds = {"x": np.arange(5, dtype=np.float32), "pads": np.array([2, -1], np.int64)}

(y,) = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
print("ONNX Runtime:", y.tolist())
try:
    refused = ""
    ReferenceEvaluator(model).run(None, feeds)
except ValueError as error:
    refused = str(error)
print("onnx reference:", refused)
assert y.tolist() == [2, 3, 0, 1, 2, 3], "the behavior has changed"
assert "negative" in refused, "the behavior has changed"
PYTHON
