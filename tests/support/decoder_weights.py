"""Weights of decoders, by GGUF's names, as those of Transformers."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.gguf_files import Array

HALVES = ("qwen2", "qwen3", "qwen3moe", "gemma2", "gemma3", "phi3")
"""Architectures whose rotated rows are in the order of Transformers."""

NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_qkv": "self_attn.qkv_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
}  # fmt: skip
GEMMA_NAMES = {
    "post_attention_norm": "post_attention_layernorm", "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}  # fmt: skip


EXPERTS = {"ffn_gate_up_exps": "gate_up_proj", "ffn_down_exps": "down_proj"}


def _joined_experts(values: dict[str, Array]) -> dict[str, Array]:
    """The gates of experts and their factors as one tensor."""
    found = dict(values)
    for key in values:
        if key.endswith("ffn_gate_exps.weight"):
            parts = [found.pop(key.replace("gate", one)) for one in ("gate", "up")]
            found[key.replace("gate", "gate_up")] = np.concatenate(parts, axis=1)
    return found


def hf_state(name: str, values: dict[str, Array], heads: int, kv_heads: int) -> dict[str, Any]:
    """Return the tensors of an architecture, of as many heads, by the names of Transformers."""
    import torch

    found = {}
    is_gemma = name.startswith("gemma")
    table = NAMES | (GEMMA_NAMES if is_gemma else {})
    if name == "phi3":
        table["ffn_up"] = "mlp.gate_up_proj"
    whole = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    for key, value in _joined_experts(values).items():
        part, _, kind = key.rpartition(".")
        if part in whole:
            target = whole[part]
        else:
            _, layer, own = part.split(".")
            target = f"model.layers.{layer}.{table.get(own, '')}"
            if own in ("attn_q", "attn_k") and name not in HALVES:
                count = heads if own == "attn_q" else kv_heads
                value = (
                    value.reshape(count, -1, 2, value.shape[1]).swapaxes(1, 2).reshape(value.shape)
                )
        value = value - 1 if is_gemma and "norm" in part else value
        if own_name := EXPERTS.get(part.rpartition(".")[2]):
            target, kind = f"model.layers.{part.split('.')[1]}.mlp.experts", own_name
        found[f"{target}.{kind}"] = torch.from_numpy(np.ascontiguousarray(value))
    return found
