"""The tensors of Transformers by the names that decoders here have."""

from __future__ import annotations

import re

import numpy as np

from ...base.errors import UserError
from ..decoder.weights import Weight, refuse

_WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "block_sparse_moe.gate": "ffn_gate_inp",
}  # fmt: skip
_GEMMA = {
    "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}  # fmt: skip
_EXPERTS = {
    "gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down",
}  # fmt: skip
_OF_EXPERT = re.compile(
    r"model\.layers\.(\d+)\.(?:mlp|block_sparse_moe)\.experts\.(\d+)\.(\w+)\.weight"
)
_OF_LAYER = re.compile(r"model\.layers\.(\d+)\.(.+)\.(weight|bias)")
_IGNORED = ("rotary_emb.inv_freq",)


def renamed(
    architecture: str, tensors: dict[str, Weight], is_tied: bool, who: str
) -> dict[str, Weight]:
    """Return tensors by the names of decoders. Raise UnsupportedError for tensors that no decoder has.

    Norms of Gemma get the 1 that its files leave out; the matrices of a layer's experts are one tensor, as in GGUF.
    `is_tied`: the head is the embedding, whatever the files hold. Raise UserError for experts that are not alike.
    """
    is_gemma = architecture.startswith("gemma")
    found: dict[str, Weight] = {}
    experts: dict[str, dict[int, Weight]] = {}
    unknown = []
    for name, tensor in tensors.items():
        expert = _OF_EXPERT.fullmatch(name)
        if expert is not None and expert[3] in _EXPERTS:
            joined = f"blk.{expert[1]}.ffn_{_EXPERTS[expert[3]]}_exps.weight"
            experts.setdefault(joined, {})[int(expert[2])] = tensor
            continue
        own = _name_of(name.replace("language_model.model.", "model."), is_gemma)
        if own is None:
            unknown += [] if name.endswith(_IGNORED) or name.startswith("vision") else [name]
        elif not (is_tied and own == "output.weight"):
            found[own] = _with_one(tensor) if is_gemma and "norm" in own else tensor
    refuse(unknown, who)
    return found | {name: _joined(name, parts, who) for name, parts in experts.items()}


def _joined(name: str, parts: dict[int, Weight], who: str) -> Weight:
    """The matrices of all experts of a layer."""
    first = parts[min(parts)]
    if sorted(parts) != list(range(len(parts))):
        text = f"{who}: experts of '{name}' must be numbered from 0 on, got {sorted(parts)}"
        raise UserError(text)
    other = next((x for x in parts.values() if (x.dims, x.kind) != (first.dims, first.kind)), None)
    if other is not None:
        text = f"{who}: experts must be alike, got {first.name} {list(first.dims)} and {other.name} {list(other.dims)}"
        raise UserError(text)
    rows = np.concatenate([parts[number].raw for number in range(len(parts))])
    return Weight(name, (len(parts), *first.dims), first.kind, rows)


def _name_of(name: str, is_gemma: bool) -> str | None:
    part, _, kind = name.rpartition(".")
    if part in _WHOLE:
        return f"{_WHOLE[part]}.{kind}"
    match = _OF_LAYER.fullmatch(name)
    if match is None:
        return None
    layer, own, kind = match.groups()
    known = (_GEMMA.get(own) if is_gemma else None) or _LAYER.get(own)
    return None if known is None else f"blk.{layer}.{known}.{kind}"


def _with_one(tensor: Weight) -> Weight:
    values = tensor.values().astype(np.float32) + np.float32(1)
    return Weight(tensor.name, tensor.dims, "<f4", values.reshape(1, -1).view(np.uint8))
