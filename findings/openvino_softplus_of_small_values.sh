#!/usr/bin/env bash
# openvino 2026.4.1: Softplus of values below -15 is 0 or negative, Mish of them is 0.
#
# softplus(x) = log(1 + exp(x)) is positive everywhere: 2.06e-9 at -20. Models of variances and rates take it for that.
#
# Seen: OpenVINO, held to f32, gives a negative number at -20 (about -1.9e-6) and 0 at -100, so that a square root or a
# logarithm behind it is NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet openvino==2026.4.1 onnx==1.23.2 onnxruntime==1.32.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime as ort
import openvino
from onnx import TensorProto, helper


def both(op, *arrays, result=None, **attributes):
    """The result of ONNX Runtime, and of OpenVINO held to f32, for one node."""
    types = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
    names = ["x", "y"][: len(arrays)]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["z"], **attributes)], "g",
        [helper.make_tensor_value_info(*given) for given in zip(names, types, [a.shape for a in arrays])],
        [helper.make_tensor_value_info("z", result or types[0], None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10).SerializeToString()
    given = dict(zip(names, arrays))
    expected = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, given)[0]
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = compiled(given)[0]
    assert found.dtype == expected.dtype
    print(f"{op} {arrays[0].dtype}: ONNX Runtime {expected.tolist()}, OpenVINO {found.tolist()}")
    return expected, found


x = np.array([-20, -16, -100, 1], np.float32)
expected, found = both("Softplus", x)
assert np.allclose(expected[:2], np.exp(x[:2]), rtol=1e-5) and (expected >= 0).all()
assert found[0] <= 0 and found[2] == 0 and abs(found[3] - expected[3]) < 1e-5, "the behavior has changed"
PYTHON
