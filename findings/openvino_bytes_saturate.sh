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


x, y = np.array([1, 200, 255], np.uint8), np.array([2, 100, 2], np.uint8)
added, subtracted = both("Add", x, y), both("Sub", x, y)
assert added[0].tolist() == [3, 44, 1] and subtracted[0].tolist() == [255, 100, 253]
assert added[1].tolist() == [3, 255, 255], "the behavior has changed"
assert subtracted[1].tolist() == [0, 100, 253], "the behavior has changed"
PYTHON
