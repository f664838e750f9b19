"""Greedy tokens of a Gemma 3 file beside Transformers in f32 with the same dequantized weights.

    python tests/measurements/gemma_tokens.py gemma-3-270m-Q4_K_M.gguf --tokens 128

A prompt whose tokens differ is printed with the first of them, and by how much the two logits differ there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from graphc.frontend.gguf import GgufFile, read_gguf
from graphc.language_models import load
from support.decoder_weights import hf_state

PROMPTS = (
    "Once upon a time", "The capital of France is", "def fibonacci(n):\n", "Water boils at", "1, 2, 3, 5, 8,",
    "In the beginning God created", "Dear Sir or Madam,\n", "The quick brown fox", "Die Hauptstadt von Deutschland",
    "Ingredients:\n- 2 eggs\n",
)  # fmt: skip


def model_of(file: GgufFile) -> Any:
    """Transformers' model with the weights of a file, in f32."""
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    def number(key: str) -> int:
        return file.integer(f"gemma3.{key}")

    layers, table = number("block_count"), file.tensors["token_embd.weight"]
    windows = ["sliding_attention" if (i + 1) % 6 else "full_attention" for i in range(layers)]
    config = Gemma3TextConfig(
        vocab_size=table.dims[0], hidden_size=number("embedding_length"), num_hidden_layers=layers,
        intermediate_size=number("feed_forward_length"), num_attention_heads=number("attention.head_count"),
        num_key_value_heads=number("attention.head_count_kv"), head_dim=number("attention.key_length"),
        query_pre_attn_scalar=number("attention.key_length"), sliding_window=number("attention.sliding_window"),
        rms_norm_eps=float(file.number("gemma3.attention.layer_norm_rms_epsilon")), layer_types=windows,
        max_position_embeddings=number("context_length"), attn_implementation="eager", dtype=torch.float32,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": float(file.number("gemma3.rope.freq_base"))},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        },
    )  # fmt: skip
    with torch.device("meta"):
        model = Gemma3ForCausalLM(config)
    model = model.to_empty(device="cpu").float().eval()
    values = {name: one.values() for name, one in file.tensors.items()}
    missing = model.load_state_dict(hf_state("gemma3", values, 0, 0), strict=False).missing_keys
    assert not [key for key in missing if "lm_head" not in key], missing
    model.tie_weights()
    for name, buffer in Gemma3ForCausalLM(config).named_buffers():  # those that are computed
        owner, _, last = name.rpartition(".")
        setattr(model.get_submodule(owner), last, buffer)
    return model


def main() -> int:
    """Print a line for each prompt; 1 if tokens differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    reference = model_of(read_gguf(args.model))
    model = load(args.model, threads=args.threads, context=512)
    same = 0
    for prompt in PROMPTS:
        tokens = model.tokenizer.encode(prompt)
        model.session.truncate(0)
        rows, found = model.session.feed(tokens), list[int]()
        given, cache, wanted = torch.tensor([tokens]), None, list[int]()
        for _ in range(args.tokens):
            with torch.no_grad():
                result = reference(given, past_key_values=cache, use_cache=True)
            theirs, cache = result.logits[0, -1].numpy(), result.past_key_values
            found.append(int(rows[-1].argmax()))
            wanted.append(int(theirs.argmax()))
            if found[-1] != wanted[-1]:
                gap = theirs[wanted[-1]] - theirs[found[-1]]
                far = np.abs(theirs - rows[-1]).max()
                print(
                    f"{prompt!r}: token {len(found)} is {found[-1]}, not {wanted[-1]}, whose logit is "
                    f"{gap:.2g} larger; logits differ by {far:.2g}"
                )
                break
            rows = model.session.feed([found[-1]])
            given = torch.tensor([[wanted[-1]]])
        else:
            same += 1
            print(f"{prompt!r}: {len(found)} tokens are equal", flush=True)
    print(f"{same} of {len(PROMPTS)} prompts have equal tokens")
    return 0 if same == len(PROMPTS) else 1


if __name__ == "__main__":
    raise SystemExit(main())
