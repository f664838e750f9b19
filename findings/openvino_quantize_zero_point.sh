#!/usr/bin/env bash
# openvino 2026.4.1 and onnxruntime 1.32.0: QuantizeLinear of values halfway between two integers.
#
# ONNX's QuantizeLinear is saturate(round(x / scale) + zero_point) with rounding to the nearest even integer. 2.5, 3.5 and
# -0.5 with scale 1 and zero point 1 are therefore 2 + 1, 4 + 1 and 0 + 1.
#
# Seen: OpenVINO, held to f32, adds the zero point before it rounds: 3.5, 4.5 and 0.5 become 4, 4 and 0. For odd zero
# points every tie falls to the other side; for even ones both orders agree. Ties are common where scales are powers of
# two and values come from integers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnx
import onnxruntime as ort
import openvino
from onnx import TensorProto, helper, numpy_helper

x = np.array([2.5, 3.5, -0.5, 10.5], np.float32)
seen = {}
for zero in (1, 2):
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [4])],
        [numpy_helper.from_array(np.float32(1), "s"), numpy_helper.from_array(np.uint8(zero), "z")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), "q.onnx")
    (expected,) = ort.InferenceSession("q.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})
    core = openvino.Core()
    compiled = core.compile_model(core.read_model("q.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled({"x": x})[0]
    print(f"zero point {zero}: ONNX Runtime {expected.tolist()}, OpenVINO {found.tolist()}")
    seen[zero] = expected.tolist(), found.tolist()
assert seen == {1: ([3, 5, 1, 11], [4, 4, 0, 12]), 2: ([4, 6, 2, 12], [4, 6, 2, 12])}, "the behavior has changed"
PYTHON
