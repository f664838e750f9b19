#!/usr/bin/env bash
# onnx 1.23.2: the reference implementation of QuantizeLinear divides f32 by an f16 scale in f32.
#
# From opset 23 on, the operator's text says that the type of y_scale determines the precision of the division unless
# the attribute precision is given. Here x is f32, y_scale f16 and precision is left out, so x / y_scale is a division
# of f16. ReferenceEvaluator gives what the division of f32 gives.
#
# Expected: the integers of a division in f16. Seen: those of a division in f32, 336 of 20,001 others.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node("QuantizeLinear", ["x", "scale"], ["y"], output_dtype=TensorProto.INT8)
x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
scale_info = helper.make_tensor_value_info("scale", TensorProto.FLOAT16, [])
y_info = helper.make_tensor_value_info("y", TensorProto.INT8, ["n"])
graph = helper.make_graph([node], "g", [x_info, scale_info], [y_info])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
x, scale = np.linspace(-3, 3, 20001).astype(np.float32), np.float16(0.0371)
(y,) = ReferenceEvaluator(model).run(None, {"x": x, "scale": scale})
half = np.rint((x.astype(np.float16) / scale).astype(np.float32))
single = np.rint(x / np.float32(scale))
others = int((y != half).sum()), int((y != single).sum())
print(f"{others[0]} of {len(x)} integers differ from a division in f16, {others[1]} from one in f32")
assert others[0] > 100 and others[1] == 0, "the behavior has changed"
PYTHON
