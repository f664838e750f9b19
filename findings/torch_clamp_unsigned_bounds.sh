#!/usr/bin/env bash
# PyTorch 2.13.0: clamp converts its bounds to the dtype of the tensor, and unsigned integers take negative bounds.
#
# For uint8, x.clamp(-5, 50) is 50 everywhere: -5 becomes 251, which is above the maximum. x.clamp(-200, None) raises
# every value to at least 56. For int8 the bound -200 raises an error, as 300 does for uint8: only negative bounds of
# unsigned types wrap. A compiler that clamps in a wider type, or saturates the bounds, gives x.clamp(0, 50).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import torch

values = [0, 1, 7, 100]
unsigned, signed = (torch.tensor(values, dtype=dtype) for dtype in (torch.uint8, torch.int8))
for bounds in ((-5, 50), (-200, None)):
    print("uint8", bounds, unsigned.clamp(*bounds).tolist())
assert unsigned.clamp(-5, 50).tolist() == [50] * 4, "the behavior has changed"
assert unsigned.clamp(-200, None).tolist() == [56, 56, 56, 100], "the behavior has changed"
for name, tensor, bounds in (("int8", signed, (-200, None)), ("uint8", unsigned, (0, 300))):
    try:
        tensor.clamp(*bounds)
    except RuntimeError as error:
        print(name, bounds, error)
    else:
        raise AssertionError("the behavior has changed")
PYTHON
