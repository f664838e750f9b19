#!/usr/bin/env bash
# onnx 1.23.2: onnx.inliner.inline_local_functions drops the default values of a function's attributes.
#
# A function declares alpha with the default 0.5 (FunctionProto.attribute_proto), and its body refers to it. A call
# leaves alpha out. By onnx.proto the body then uses 0.5. After inlining, LeakyRelu has no alpha at all and so takes
# its operator's own default, 0.01.
#
# Expected: -2 becomes -1. Seen: -0.02.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from onnx import AttributeProto, TensorProto, helper, inliner
from onnx.reference import ReferenceEvaluator

leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
leaky.attribute.append(AttributeProto(name="alpha", ref_attr_name="alpha", type=AttributeProto.FLOAT))
opset = helper.make_opsetid("", 18)
default = helper.make_attribute("alpha", 0.5)
function = helper.make_function("own", "Half", ["a"], ["b"], [leaky], [opset], attribute_protos=[default])
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Half", ["x"], ["y"], domain="own")], "g", values[:1], values[1:])
opsets = [opset, helper.make_opsetid("own", 1)]
model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=9)

(node,) = inliner.inline_local_functions(model).graph.node
print("inlined:", node.op_type, "with", list(node.attribute) or "no attribute")
(y,) = ReferenceEvaluator(inliner.inline_local_functions(model)).run(None, {"x": np.array([1, -2], np.float32)})
print("1, -2 become", y.tolist())
assert node.op_type == "LeakyRelu" and not node.attribute
assert np.allclose(y, [1, -0.02]), "the behavior has changed"
PYTHON
