#!/usr/bin/env bash
# torch 2.13.0: fmod and remainder of f32 are NaN for quotients of about 2^100, where a vector of elements is computed.
#
# C's fmod is exact, and PyTorch's documentation says that torch.fmod is its function: the remainder of two finite floats
# is a finite float. Seen on a CPU with AVX2: fmod(3e38, 0.1) is NaN in whole vectors, so in all of 64 elements, and 0.0796
# in tensors of one element and in f64.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 numpy
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import torch

expected = np.fmod(np.float32(3e38), np.float32(0.1))
found = {}
for count in (1, 64):
    x = torch.full((count,), 3e38)
    found[count] = [function(x, 0.1) for function in (torch.fmod, torch.remainder)]
    print(f"{count} elements: fmod {found[count][0][-1]}, remainder {found[count][1][-1]}, NumPy's fmod {expected}")
assert all((one == expected).all() for one in found[1])
assert all(one.isnan().all() for one in found[64]), "the behavior has changed"
PYTHON
