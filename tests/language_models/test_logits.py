"""Logits of every architecture, beside Transformers' models with the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.language_models import load
from support.decoder_weights import hf_state
from support.gguf_files import Array, TinyDecoder
from support.torch_zoo import zoo

transformers = zoo("transformers")
torch = pytest.importorskip("torch")

GEMMA3 = {
    "attention.sliding_window": 8,
    "attention.sliding_window_pattern": np.array([True, False]),
    "rope.freq_base": 1_000_000.0,
}
MODELS = {
    "llama": TinyDecoder("llama"),
    "llama, other types": TinyDecoder(
        "llama",
        kinds=("q4_1", "q5_1", "iq4_nl", "mxfp4"),
        more={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0},
    ),
    "llama, super-blocks": TinyDecoder(
        "llama", width=256, key_size=64, hidden=256, kinds=("q4_k", "q6_k", "q3_k", "q5_k", "q2_k", "iq4_xs"),
    ),
    "llama, experts": TinyDecoder("llama", experts=4),
    "qwen3moe": TinyDecoder("qwen3moe", experts=5),
    "qwen3moe, weights of all": TinyDecoder("qwen3moe", experts=5, more={"expert_weights_norm": False}),
    "qwen3moe, super-blocks": TinyDecoder(
        "qwen3moe", experts=5, width=256, key_size=64, hidden=256, kinds=("q4_k", "q6_k", "q3_k", "mxfp4", "q5_1"),
    ),
    "qwen2": TinyDecoder("qwen2"),
    "qwen3": TinyDecoder("qwen3", key_size=32),
    "gemma2": TinyDecoder(
        "gemma2",
        more={"attention.sliding_window": 8, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    ),
    "gemma3": TinyDecoder("gemma3", kv_heads=1, key_size=32, more=GEMMA3),
    "phi3": TinyDecoder("phi3"),
    "smollm3": TinyDecoder("smollm3", layers=4),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    """A prompt in two parts, then tokens one at a time, with the window of local layers exceeded."""
    tiny = MODELS[name]
    path, values = tiny.write(tmp_path / "tiny.gguf")
    tokens = np.random.default_rng(1).integers(0, tiny.vocabulary, 24).tolist()
    wanted = reference(tiny, values, tokens)
    session = load(path, threads=1, context=64).session
    parts = [tokens[:13], tokens[13:21], *([one] for one in tokens[21:])]
    found = np.concatenate([session.feed(part, every=True) for part in parts])
    scale = np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, atol=2e-4 * scale)


def reference(tiny: TinyDecoder, values: dict[str, Array], tokens: list[int]) -> Array:
    """The logits of all tokens, by Transformers in float64."""
    model = _model(tiny).double().eval()
    state = hf_state(tiny.architecture, values, tiny.heads, tiny.kv_heads)
    with torch.no_grad():
        missing = model.load_state_dict(state, strict=False).missing_keys
        assert not [key for key in missing if "lm_head" not in key], missing
        model.tie_weights()
        return np.asarray(model(torch.tensor([tokens])).logits[0].numpy())


def _model(tiny: TinyDecoder) -> Any:
    name = tiny.architecture
    same: dict[str, Any] = {
        "vocab_size": tiny.vocabulary, "hidden_size": tiny.width, "num_hidden_layers": tiny.layers,
        "num_attention_heads": tiny.heads, "num_key_value_heads": tiny.kv_heads, "head_dim": tiny.key_size,
        "intermediate_size": tiny.hidden, "rms_norm_eps": float(np.float32(1e-6)), "max_position_embeddings": 512,
        "rope_theta": 10000.0, "pad_token_id": None, "attn_implementation": "eager",
        "tie_word_embeddings": name not in ("llama", "phi3", "qwen3", "qwen3moe"), "dtype": torch.float64,
    }  # fmt: skip
    if tiny.more.get("rope.scaling.type") == "linear":
        same["rope_parameters"] = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    if tiny.experts:
        same |= {
            "num_local_experts": tiny.experts, "num_experts": tiny.experts, "num_experts_per_tok": 2,
            "moe_intermediate_size": tiny.hidden, "norm_topk_prob": tiny.more.get("expert_weights_norm", True),
            "experts_implementation": "eager",
        }  # fmt: skip
    own: dict[str, dict[str, Any]] = {
        "gemma2": {
            "query_pre_attn_scalar": tiny.key_size, "sliding_window": 8, "hidden_activation": "gelu_pytorch_tanh",
        },
        "gemma3": {
            "query_pre_attn_scalar": tiny.key_size, "sliding_window": 8, "hidden_activation": "gelu_pytorch_tanh",
            "layer_types": ["sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
        "smollm3": {"no_rope_layers": [1, 1, 1, 0], "use_sliding_window": False},
    }  # fmt: skip
    kinds = {
        "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "gemma2": "Gemma2", "gemma3": "Gemma3Text",
        "phi3": "Phi3", "smollm3": "SmolLM3",
    }  # fmt: skip
    kinds |= {"qwen3moe": "Qwen3Moe"} | ({"llama": "Mixtral"} if tiny.experts else {})
    config = getattr(transformers, f"{kinds[name]}Config")(**same | own.get(name, {}))
    model = {"gemma3": "Gemma3"}.get(name, kinds[name])
    torch.manual_seed(0)
    return getattr(transformers, f"{model}ForCausalLM")(config)
