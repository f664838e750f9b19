#!/usr/bin/env bash
# catboost 1.2.10: the ONNX file of a Poisson regression gives the logarithm of what CatBoost predicts.
#
# CatBoostRegressor.predict of a model trained with Poisson gives exp(raw value). save_model(format="onnx") writes a
# TreeEnsembleRegressor without that step and without a warning; the metadata of the file do not name the loss.
#
# Expected: the file computes predict(x). Seen: it computes log(predict(x)).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet catboost==1.2.10 onnxruntime==1.32.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
from catboost import CatBoostRegressor

x = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
model = CatBoostRegressor(iterations=5, depth=2, loss_function="Poisson", verbose=False, allow_writing_files=False)
model.fit(x, np.abs(x[:, 0]) * 3)
model.save_model("model.onnx", format="onnx")
session = onnxruntime.InferenceSession("model.onnx")
written = session.run(None, {session.get_inputs()[0].name: x})[0].reshape(-1)
predicted = model.predict(x)
print("predict", predicted[:3].tolist(), "the file", written[:3].tolist())
assert not np.allclose(written, predicted, rtol=0.1)
assert np.allclose(written, np.log(predicted), rtol=1e-4, atol=1e-5), "the behavior has changed"
PYTHON
