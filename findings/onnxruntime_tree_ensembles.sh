#!/usr/bin/env bash
# onnxruntime 1.32.0: three forms of tree ensembles give other results than the text of ai.onnx.ml.
#
# 1. TreeEnsembleRegressor with one target does not apply the post_transform LOGISTIC; with two targets it does.
#    Expected: 1 / (1 + exp(-0.25)) = 0.562 and 1 / (1 + exp(-0.75)) = 0.679. Seen: 0.25 and 0.75.
# 2. TreeEnsembleClassifier of two classes ignores a single base value where the weights name class 1 alone. The text:
#    base_values are "added to final class score"; where the weights name class 0 alone it is added.
#    Expected: 0.25 + 0.5 and 0.75 + 0.5. Seen: 0.25 and 0.75.
# 3. With weights for both of two classes, called 3 and 8, the label is not the class of the higher score ("The top
#    class for each point"), nor one of classlabels_int64s. onnx's reference evaluator gives 3 and 8.
#    Expected: 3 and 8 for the scores (0.75, 0.25) and (0.25, 0.75). Seen: 1 and 1; the scores are right.
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


both = [(1, 0), (1, 1), (2, 0), (2, 1)]
how = {"n_targets": 1, "post_transform": "LOGISTIC"}
(one,) = run(stump("Regressor", [(1, 0), (2, 0)], [0.25, 0.75], **how))
(two,) = run(stump("Regressor", both, [0.25, 0.25, 0.75, 0.75], **how | {"n_targets": 2}))
print("LOGISTIC of one target", one, "of two", two)
assert np.allclose(two, 1 / (1 + np.exp([[-0.25] * 2, [-0.75] * 2])))
assert one == [[0.25], [0.75]], "the behavior has changed"

how = {"classlabels_int64s": [0, 1], "base_values": [0.5]}
_, first = run(stump("Classifier", [(1, 0), (2, 0)], [0.25, 0.75], **how))
_, second = run(stump("Classifier", [(1, 1), (2, 1)], [0.25, 0.75], **how))
print("a base value and weights of class 0:", first, "of class 1:", second)
assert [row[1] for row in first] == [0.75, 1.25]
assert [row[1] for row in second] == [0.25, 0.75], "the behavior has changed"

label, scores = run(stump("Classifier", both, [0.75, 0.25, 0.25, 0.75], classlabels_int64s=[3, 8]))
print("scores", scores, "labels", label)
assert scores == [[0.75, 0.25], [0.25, 0.75]]
assert label == [1, 1], "the behavior has changed"
PYTHON
