#!/usr/bin/env bash
# transformers 5.24.0 with PyTorch 2.13.0: a mixture of experts in float64 fails on CPU unless its experts run eagerly.
#
# The default implementation of the expert layers calls PyTorch's grouped matmul, which takes float32, bfloat16 and
# float16 only, so that a float64 reference of Mixtral or Qwen3-MoE ends in a RuntimeError; models without experts run.
# With experts_implementation="eager" in the configuration the same model gives float64 logits, and in float32 both
# implementations agree.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0
"$folder/venv/bin/pip" install --quiet transformers==5.24.0
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from transformers import MixtralConfig, MixtralForCausalLM

sizes = dict(
    vocab_size=40, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, num_local_experts=4, num_experts_per_tok=2,
)
tokens = torch.tensor([[1, 2, 3, 4, 5]])


def logits(dtype, **more):
    torch.manual_seed(0)
    model = MixtralForCausalLM(MixtralConfig(**sizes, **more)).to(dtype).eval()
    with torch.no_grad():
        return model(tokens).logits


try:
    logits(torch.float64)
except RuntimeError as error:
    print("float64, default:", str(error).splitlines()[0])
else:
    raise AssertionError("the behavior has changed")
eager = logits(torch.float64, experts_implementation="eager")
assert eager.dtype == torch.float64
apart = (logits(torch.float32) - logits(torch.float32, experts_implementation="eager")).abs().max().item()
print("float64, eager:", tuple(eager.shape), "float32, default against eager:", f"{apart:.1e}")
assert apart < 1e-5
PYTHON
