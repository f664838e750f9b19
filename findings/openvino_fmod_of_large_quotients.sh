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


x, y = np.array([1e30, -1e30, 5e9, 7.5], np.float32), np.array([7, 7, 3, 2], np.float32)
expected, found = both("Mod", x, y, fmod=1)
assert expected.tolist() == np.fmod(x, y).tolist() == [1, -1, 2, 1.5]
assert found.tolist() == [0, 0, 0, 1.5], "the behavior has changed"
PYTHON
