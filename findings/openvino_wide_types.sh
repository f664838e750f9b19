#!/usr/bin/env bash
# openvino 2026.4.1: int64 and double are computed in 32 bits, comparisons of int32 in f32.
#
# Add, Mul and Equal of ONNX take int64 and double, and the files declare these types for inputs and results.
#
# Expected: sums, multiplications and comparisons of these types. Seen: the results have the declared types, but 2**40 + 3 is 3
# (the low 32 bits), 1 + 1e-12 - 1 is 0, 1e300 is the largest float, 2**40 equals 2**41, and the int32 16777217 equals
# 16777216, as if both were floats. There is no warning. Times in nanoseconds, hashes and identifiers are such numbers.
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


wide = np.array([2**40, 2**31, -(2**33), 3])
sums = both("Add", wide, np.full(4, 3))
doubles = both("Add", np.array([1 + 1e-12, 1e300]), np.array([-1.0, 1.0]))
equal = both("Equal", np.array([2**40, 2]), np.array([2**41, 2]), result=TensorProto.BOOL)
near = both("Equal", np.array([16777217, 2], np.int32), np.array([16777216, 2], np.int32), result=TensorProto.BOOL)
assert sums[0].tolist() == [2**40 + 3, 2**31 + 3, 3 - 2**33, 6]
assert equal[0].tolist() == near[0].tolist() == [False, True] and abs(doubles[0][0] - 1e-12) < 1e-15
assert sums[1].tolist() == [3, 3 - 2**31, 3, 6], "the behavior has changed"
assert doubles[1][0] == 0 and doubles[1][1] < 1e39, "the behavior has changed"
assert equal[1].tolist() == near[1].tolist() == [True, True], "the behavior has changed"
PYTHON
