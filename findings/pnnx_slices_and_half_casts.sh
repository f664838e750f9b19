#!/usr/bin/env bash
# pnnx 20261020: two functions whose files compute something else, without a warning.
#
# 1. x[:, 1:] - x[:, :-1] of an axis that a second input shape makes dynamic: both slices are gone, the file subtracts
#    x from itself. Traced with one shape, the slices are there.
# 2. (x.half() + 1).float(): both casts are gone, the file adds in f32.
#
# Expected: operators for the slices and the casts. Seen: one expression each, sub(@0,@1) of one operand and add(@0,1).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 pnnx==20261020 numpy
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import pnnx
import torch


class Differences(torch.nn.Module):
    def forward(self, x):
        return x[:, 1:] - x[:, :-1]


class Half(torch.nn.Module):
    def forward(self, x):
        return (x.half() + 1).float()


def operators(module, x, **more):
    pnnx.export(module.eval(), "m.pt", (x,), **more)
    with open("m.pnnx.param") as file:
        return [line.split() for line in file.read().splitlines()[2:]][1:-1]


fixed = operators(Differences(), torch.randn(2, 8))
dynamic = operators(Differences(), torch.randn(2, 8), inputs2=(torch.randn(2, 12),))
half = operators(Half(), torch.randn(4))
for name, made in (("one shape", fixed), ("two shapes", dynamic), ("casts", half)):
    print(name, made)
assert len(fixed) > 1
assert len(dynamic) == 1 and "expr=sub(@0,@1)" in dynamic[0], "the behavior has changed"
assert dynamic[0][4:6] == ["0", "0"], "the behavior has changed"
assert len(half) == 1 and "expr=add(@0,1)" in half[0], "the behavior has changed"
PYTHON
