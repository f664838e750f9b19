#!/usr/bin/env bash
# torch 2.13.0 (onnxscript 0.7.2) and onnxruntime 1.32.0: interpolate by a scale that no float is.
#
# interpolate(x, scale_factor=0.57) of 100 elements has 56 in PyTorch, which multiplies in doubles (56.99...) and rounds
# down. torch.onnx.export writes a Resize whose scale is a float, and 56 as the size of its result. That float times 100
# is 56.9999993 exactly, so that the specification's floor(size * scale) is 56 as well; onnx's reference agrees.
#
# Seen: ONNX Runtime multiplies in floats, where the result is 57.0, and gives 57 elements; it only warns that the file
# says 56. So do 0.29 and 0.58, and 200 elements.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0 onnxscript==0.7.2
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON' 2>"$folder/log" || { cat "$folder/log"; exit 1; }
import onnx
import onnxruntime as ort
import torch
from onnx.reference import ReferenceEvaluator


class Shrink(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=self.scale)


for scale, size in [(0.57, 100), (0.57, 200), (0.29, 100), (0.58, 100)]:
    x = torch.arange(float(size)).reshape(1, 1, size)
    torch.onnx.export(Shrink(scale), (x,), "m.onnx", dynamo=True, verbose=False)
    model = onnx.load("m.onnx")
    written = model.graph.output[0].type.tensor_type.shape.dim[2].dim_value
    reference = ReferenceEvaluator(model).run(None, {"x": x.numpy()})[0].shape[2]
    found = ort.InferenceSession("m.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})[0]
    eager = Shrink(scale)(x).shape[2]
    print(f"{scale} of {size}: PyTorch {eager}, in the file {written}, onnx reference {reference}, "
          f"ONNX Runtime {found.shape[2]}")
    assert eager == written == reference == found.shape[2] - 1, "the behavior has changed"
PYTHON
