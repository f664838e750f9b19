#!/usr/bin/env bash
# openvino 2026.4.1: AveragePool with ceil_mode and count_include_pad divides by the whole window.
#
# With count_include_pad=1 the pads of the file count as elements. What ceil_mode adds beyond them does not: the
# reference evaluator, PyTorch and ONNX Runtime agree on that.
#
# Seen: OpenVINO divides the sums of such windows by the area of the kernel. Of a 5x5 image with a 3x3 window, stride 2 and
# a pad of 1 before, the last row and the last column of averages are too small, by a third or more.
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


image = np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)
window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]}
expected, found = both("AveragePool", image, ceil_mode=1, count_include_pad=1, **window)
padded = np.pad(image[0, 0], ((1, 0), (1, 0)))
exact = [[padded[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].mean() for j in range(3)] for i in range(3)]
whole = [[padded[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].sum() / 9 for j in range(3)] for i in range(3)]
assert np.allclose(expected[0, 0], exact) and not np.allclose(exact, whole)
assert np.allclose(found[0, 0], whole), "the behavior has changed"
PYTHON
