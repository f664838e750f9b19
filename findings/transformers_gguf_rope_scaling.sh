#!/usr/bin/env bash
# transformers 5.24.0 with gguf 0.19.0: rope scaling of a GGUF file is dropped when the model is read.
#
# A Llama whose file says rope.scaling.type=linear and rope.scaling.factor=4 is read with the rotary embedding of an
# unscaled one, without a warning: logits are those of the same file without the two keys, and differ from those of a
# model to which the factor is given in its configuration.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0
"$folder/venv/bin/pip" install --quiet transformers==5.24.0 gguf==0.19.0 accelerate==1.15.0
cd "$folder"
"$folder/venv/bin/python" - <<'PYTHON'
import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

WIDTH, WORDS = 64, 41


def write(name, scaled):
    writer, rng = gguf.GGUFWriter(name, "llama"), np.random.default_rng(0)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    if scaled:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(4.0)
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *(f"w{i}" for i in range(WORDS))]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([-float(i) for i in range(len(texts))])
    writer.add_token_types([2, 3, 3, *[6] * 256, *[1] * WORDS])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_vocab_size(len(texts))
    matrices = {"token_embd": (len(texts), WIDTH), "output": (len(texts), WIDTH)}
    rows = dict(attn_q=64, attn_k=32, attn_v=32, attn_output=64, ffn_gate=96, ffn_up=96)
    matrices |= {f"blk.0.{part}": (size, WIDTH) for part, size in rows.items()} | {"blk.0.ffn_down": (WIDTH, 96)}
    for part, dims in matrices.items():
        writer.add_tensor(f"{part}.weight", (0.3 * rng.standard_normal(dims)).astype(np.float32))
    for part in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{part}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def logits(name, **more):
    model = AutoModelForCausalLM.from_pretrained(".", gguf_file=name, dtype=torch.float32, **more).eval()
    with torch.no_grad():
        return model(torch.tensor([[1, 262, 270, 280, 290, 265, 271]])).logits


write("scaled.gguf", True)
write("plain.gguf", False)
config = AutoConfig.from_pretrained(".", gguf_file="scaled.gguf")
print("rope of the scaled file:", config.rope_parameters)
assert config.rope_parameters["rope_type"] == "default"
read, plain = logits("scaled.gguf"), logits("plain.gguf")
config.rope_parameters = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
given = logits("plain.gguf", config=config)
print(f"against the unscaled file: {(read - plain).abs().max():.1e}, against factor 4: {(read - given).abs().max():.1e}")
assert torch.equal(read, plain) and (read - given).abs().max() > 0.01
PYTHON
