#!/usr/bin/env bash
# onnxruntime 1.32.0: TreeEnsembleRegressor with one target does not apply the post_transform LOGISTIC.
#
# The operator's text: post_transform "indicates the transform to apply to the score". With two targets it is applied.
#
# Expected: 1 / (1 + exp(-0.25)) = 0.562 and 1 / (1 + exp(-0.75)) = 0.679. Seen: 0.25 and 0.75.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

def stump(kind, named, weights, **attributes):
    """Return a model of one tree: x <= 0 leads to leaf 1, else to leaf 2; `named` is (leaf, result) of each weight."""
    what = "class" if kind == "Classifier" else "target"
    results = attributes.get("n_targets") or len(attributes["classlabels_int64s"])
    attributes |= {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
        f"{what}_treeids": [0] * len(named), f"{what}_nodeids": [leaf for leaf, _ in named],
        f"{what}_ids": [result for _, result in named], f"{what}_weights": weights,
    }
    names = ["label", "scores"] if kind == "Classifier" else ["scores"]
    node = helper.make_node(f"TreeEnsemble{kind}", ["x"], names, domain="ai.onnx.ml", **attributes)
    outputs = [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", results])]
    if kind == "Classifier":
        outputs.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1])
    graph = helper.make_graph([node], "trees", [x], outputs)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def run(model):
    session = onnxruntime.InferenceSession(model)
    return [one.tolist() for one in session.run(None, {"x": np.array([[-1], [1]], np.float32)})]


(one,) = run(stump("Regressor", [(1, 0), (2, 0)], [0.25, 0.75], n_targets=1, post_transform="LOGISTIC"))
both = [(1, 0), (1, 1), (2, 0), (2, 1)]
(two,) = run(stump("Regressor", both, [0.25, 0.25, 0.75, 0.75], n_targets=2, post_transform="LOGISTIC"))
print("one target", one, "two targets", two)
assert np.allclose(two, 1 / (1 + np.exp([[-0.25] * 2, [-0.75] * 2])))
assert one == [[0.25], [0.75]], "the behavior has changed"
PYTHON
