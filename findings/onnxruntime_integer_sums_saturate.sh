#!/usr/bin/env bash
# onnxruntime 1.32.0: ReduceSum of int32 saturates where Add wraps, and Pow of int32 saturates.
#
# The specification has no rule for overflow of integers; NumPy, PyTorch and XLA compute modulo 2**32 in all of them.
#
# Seen: within ONNX Runtime 2**30 + 2**30 is -2**31 by Add and by CumSum, and 2**31 - 1 by ReduceSum; 3**20 by Pow is
# -2**31, where repeated Mul gives the low 32 bits. Hashes and checksums in graphs depend on which op computes them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime as ort
from onnx import helper, numpy_helper


def run(op, x, *constants, **attributes):
    """The result of one node for an int32 and constants."""
    names = [f"c{i}" for i in range(len(constants))]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"], **attributes)], "g",
        [helper.make_tensor_value_info("x", kind, x.shape)], [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(constant, name) for constant, name in zip(constants, names)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10).SerializeToString()
    found = ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].tolist()
    print(op, found)
    return found


half = np.array([2**30, 2**30], np.int32)
assert run("Add", half[:1], half[:1]) == [-(2**31)]
assert run("CumSum", half, np.array(0))[-1] == -(2**31)
assert run("ReduceSum", half, keepdims=0) == 2**31 - 1, "the behavior has changed"
three = np.array([3], np.int32)
low = (3**20 + 2**31) % 2**32 - 2**31
assert run("Pow", three, np.array([20], np.int32)) == [-(2**31)] != [low], "the behavior has changed"
PYTHON
