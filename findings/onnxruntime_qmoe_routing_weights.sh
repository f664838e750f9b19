#!/usr/bin/env bash
# onnxruntime 1.32.0: QMoE on CPU ignores normalize_routing_weights, which MoE with the same weights as floats heeds.
#
# The attribute says whether the weights of the k chosen experts are divided by their sum. QMoE gives the same result
# for 0 and 1, that of 1, so that a model with normalize_routing_weights=0 and one expert per token is 2 times what MoE
# gives. With all experts chosen the two operators agree.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnxruntime==1.32.0 onnx==1.23.2
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

EXPERTS, SIZE, TOKENS = 4, 32, 3
rng = np.random.default_rng(0)
feeds = {
    "x": rng.standard_normal((TOKENS, SIZE)).astype(np.float32),
    "router": rng.standard_normal((TOKENS, EXPERTS)).astype(np.float32),
}
packed = [rng.integers(0, 256, (EXPERTS, SIZE, SIZE // 2), np.uint8) for _ in range(2)]
scale = np.full((EXPERTS, SIZE), 0.02, np.float32)
levels = [np.stack([one & 15, one >> 4], -1).reshape(EXPERTS, SIZE, SIZE) for one in packed]
floats = [((one.astype(np.float32) - 8) * np.float32(0.02)) for one in levels]


def result(kind, k, normalizes):
    weights = {"w1": packed[0], "s1": scale, "w2": packed[1], "s2": scale}
    names, more = ["x", "router", "w1", "s1", "", "w2", "s2"], {"expert_weight_bits": 4}
    if kind == "MoE":
        weights = {"w1": floats[0], "w2": floats[1]}
        names, more = ["x", "router", "w1", "", "w2"], {}
    node = helper.make_node(
        kind, names, ["y"], domain="com.microsoft", k=k, activation_type="relu",
        normalize_routing_weights=normalizes, **more,
    )
    graph = helper.make_graph(
        [node], "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in feeds.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(x, n) for n, x in weights.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


for k in (1, 2, EXPERTS):
    apart = {
        kind: float(np.abs(result(kind, k, 0) - result(kind, k, 1)).max()) for kind in ("QMoE", "MoE")
    }
    print(f"k={k}: 0 against 1 differ by", apart)
    assert apart["QMoE"] == 0 and (apart["MoE"] > 0.01) == (k < EXPERTS)
    assert np.allclose(result("QMoE", k, 0), result("MoE", k, 1), atol=1e-4)
PYTHON
