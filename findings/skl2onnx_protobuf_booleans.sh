#!/usr/bin/env bash
# skl2onnx 1.20.0 (scikit-learn 1.9.1, onnx 1.23.2): HistGradientBoosting with protobuf 7.
#
# The requirements of the packages let pip choose protobuf 7.36.2. Its lists of integers refuse Python's booleans, which
# skl2onnx writes into `nodes_missing_value_tracks_true`; protobuf 6 took them for 0 and 1.
#
# Seen: to_onnx ends with ValueError "Unable to create node 'TreeEnsembleRegressor'", whose cause is protobuf's TypeError,
# "Expected an int, got a boolean". With protobuf 6.33.0 and all else equal the file is written.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet skl2onnx==1.20.0 scikit-learn==1.9.1 onnx==1.23.2 protobuf==7.36.2
cat >"$folder/convert.py" <<'PYTHON'
import numpy as np
from skl2onnx import to_onnx
from sklearn.ensemble import HistGradientBoostingRegressor

x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
try:
    to_onnx(HistGradientBoostingRegressor(max_iter=2).fit(x, x[:, 0]), x[:1])
    print("written")
except ValueError as error:
    print(str(error).partition(" with name")[0], "|", error.__cause__ or error.__context__)
PYTHON
new=$("$folder/venv/bin/python" -W ignore "$folder/convert.py")
"$folder/venv/bin/pip" install --quiet protobuf==6.33.0
old=$("$folder/venv/bin/python" -W ignore "$folder/convert.py")
echo "protobuf 7.36.2: $new"
echo "protobuf 6.33.0: $old"
[[ $new == *"Expected an int, got a boolean"* && $old == written ]] || { echo "the behavior has changed" >&2; exit 1; }
