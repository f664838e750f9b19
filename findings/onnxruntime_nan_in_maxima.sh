#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.23.2: NaN in the ops of ONNX that take the largest value.
#
# The specifications of ReduceMax, ArgMax, MaxPool, ScatterElements and Max do not mention NaN. Within one engine one
# would expect one rule, of which NumPy (NaN wins) and C's fmax (NaN is ignored) are the usual two.
#
# Seen: ONNX Runtime's Max and TopK take NaN for the largest, its ReduceMax, ArgMax, MaxPool and ScatterElements ignore
# it. onnx's reference evaluator lets NaN win in Max, TopK, ReduceMax and ArgMax, and ignores it in MaxPool and
# ScatterElements. A network that is exported with MaxPool therefore loses a NaN that PyTorch, whose pools keep it, shows.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

x = np.array([1, np.nan, 3, 2], np.float32)


def both(op, x, constants=(), **attributes):
    """The result of ONNX Runtime and of onnx's reference."""
    names = [f"c{i}" for i in range(len(constants))]
    results = ["y", "i"] if op == "TopK" else ["y"]
    node = helper.make_node(op, ["x", *names], results, **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_empty_tensor_value_info(name) for name in results],
        [numpy_helper.from_array(c, name) for c, name in zip(constants, names)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [run(None, {"x": x})[0].ravel().tolist() for run in (session.run, ReferenceEvaluator(model).run)]


two = [np.array([0, 0]), np.array([np.nan, 5], np.float32)]
seen = {
    "Max": both("Max", x[1:2], [np.float32([3])]),
    "TopK": both("TopK", x, [np.array([1])]),
    "ReduceMax": both("ReduceMax", x),
    "ArgMax": both("ArgMax", x, axis=0),
    "MaxPool": both("MaxPool", x[None, None], kernel_shape=[4]),
    "ScatterElements": both("ScatterElements", x[:1], two, reduction="max"),
}
for op, (engine, reference) in seen.items():
    print(f"{op:16} ONNX Runtime {engine}, reference {reference}")
nan = float("nan")
expected = {"Max": [[nan], [nan]], "TopK": [[nan], [nan]], "ReduceMax": [[3], [nan]], "ArgMax": [[2], [1]],
            "MaxPool": [[3], [3]], "ScatterElements": [[5], [5]]}
assert str({k: [list(map(float, v)) for v in pair] for k, pair in seen.items()}) == str(
    {k: [list(map(float, v)) for v in pair] for k, pair in expected.items()}), "the behavior has changed"
PYTHON
