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


def two(op, kind, result, x, y):
    """Return the results for two arrays of a type."""
    n = len(x)
    graph = f"({kind}[{n}] x, {kind}[{n}] y) => ({result}[{n}] z) {{ z = {op}(x, y) }}"
    return both(graph, x=np.array(x), y=np.array(y))


sums = two("Add", "int64", "int64", [2**40, 2**31, -(2**33), 3], [3] * 4)
doubles = two("Add", "double", "double", [1 + 1e-12, 1e300], [-1.0, 1.0])
equal = two("Equal", "int64", "bool", [2**40, 2], [2**41, 2])
near = two("Equal", "int32", "bool", np.int32([16777217, 2]), np.int32([16777216, 2]))
assert sums[0].tolist() == [2**40 + 3, 2**31 + 3, 3 - 2**33, 6]
assert equal[0].tolist() == near[0].tolist() == [False, True] and abs(doubles[0][0] - 1e-12) < 1e-15
assert sums[1].tolist() == [3, 3 - 2**31, 3, 6], "the behavior has changed"
assert doubles[1][0] == 0 and doubles[1][1] < 1e39, "the behavior has changed"
assert equal[1].tolist() == near[1].tolist() == [True, True], "the behavior has changed"
PYTHON
