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


image = np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)
expected, found = both(
    "(float[1,1,5,5] x) => (float[1,1,3,3] y) { y = AveragePool<ceil_mode=1, count_include_pad=1, "
    "kernel_shape=[3,3], strides=[2,2], pads=[1,1,0,0]>(x) }",
    x=image,
)
padded = np.pad(image[0, 0], ((1, 0), (1, 0)))
exact = [[padded[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].mean() for j in range(3)] for i in range(3)]
whole = [[padded[2 * i : 2 * i + 3, 2 * j : 2 * j + 3].sum() / 9 for j in range(3)] for i in range(3)]
assert np.allclose(expected[0, 0], exact) and not np.allclose(exact, whole)
assert np.allclose(found[0, 0], whole), "the behavior has changed"
PYTHON
