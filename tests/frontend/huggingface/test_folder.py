"""Folders of Transformers: the same logits, whatever the rotary embedding and the windows; corrupt folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend.huggingface import read_folder
from graphc.frontend.huggingface.settings import DEFAULTS
from graphc.language_models import load
from support.torch_zoo import zoo

transformers = zoo("transformers")

SAME: dict[str, Any] = {
    "vocab_size": 90, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64, "pad_token_id": None,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {"tie_word_embeddings": False}),
    "llama 3": ("Llama", {"rope_parameters": LLAMA3, "attention_bias": True}),
    "mistral": ("Mistral", {"sliding_window": 6, "rope_theta": 1e6}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {}),
    "gemma2": ("Gemma2", {"sliding_window": 6, "query_pre_attn_scalar": 16}),
    "gemma3": ("Gemma3", {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]}),
    "phi3": (
        "Phi3",
        {
            "rope_parameters": {
                "rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0, 1.1, 1.2, 1.3],
                "long_factor": [2.0] * 4, "original_max_position_embeddings": 32,
            },
            "original_max_position_embeddings": 32,
        },
    ),
    "yarn": (
        "Qwen3",
        {
            "rope_parameters": {
                "rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0, "original_max_position_embeddings": 32,
            }
        },
    ),
    "yarn, all parameters": (
        "Llama",
        {
            "rope_parameters": {
                "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16,
                "beta_fast": 3.0, "beta_slow": 0.5, "truncate": False, "mscale": 0.7, "mscale_all_dim": 1.2,
            }
        },
    ),
    "qwen2, windows": ("Qwen2", {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1}),
    "mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 6}),
    "qwen3_moe": (
        "Qwen3Moe",
        {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "norm_topk_prob": True},
    ),
    "qwen3_moe, weights of all, one layer without experts": (
        "Qwen3Moe",
        {"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "mlp_only_layers": [1]},
    ),
    "smollm3, other layers": ("SmolLM3", {"no_rope_layers": [0, 1]}),
    "smollm3, every second": ("SmolLM3", {"no_rope_layer_interval": 2}),
}  # fmt: skip


def saved(folder: Path, kind: str, more: dict[str, Any]) -> Any:
    """A random model, saved with norms that are not 1."""
    name = "Gemma3TextConfig" if kind == "Gemma3" else f"{kind}Config"
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, name)(**SAME | more))
    with torch.no_grad():
        for key, value in model.named_parameters():
            value.copy_(
                torch.randn_like(value) * 0.2 + (1 if "norm" in key and kind[:5] != "Gemma" else 0)
            )
    model.eval().save_pretrained(folder)
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    kind, more = MODELS[name]
    model = saved(tmp_path, kind, more)
    tokens = np.random.default_rng(0).integers(0, 90, 20).tolist()
    with torch.no_grad():
        wanted = model(torch.tensor([tokens])).logits[0].numpy()
    session = load(tmp_path, threads=1, context=30).session
    found = np.concatenate(
        [session.feed(tokens[:9], every=True), session.feed(tokens[9:], every=True)]
    )
    np.testing.assert_allclose(found, wanted, atol=3e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", DEFAULTS)
def test_settings_that_are_absent_are_those_of_transformers(kind: str) -> None:
    names = {"gemma3_text": "Gemma3Text", "smollm3": "SmolLM3", "qwen3_moe": "Qwen3Moe"}
    made = getattr(transformers, f"{names.get(kind, kind.capitalize())}Config")
    plain = made()
    rope = plain.rope_parameters
    of_kinds = {
        "rope_theta": rope.get("full_attention", rope).get("rope_theta"),
        "rope_local_base_freq": rope.get("sliding_attention", rope).get("rope_theta"),
        "sliding_window_pattern": plain.to_dict().get("_sliding_window_pattern"),
        "sliding_window": (made(use_sliding_window=True) if "qwen" in kind else plain).to_dict().get("sliding_window"),
    }  # fmt: skip
    for name, value in DEFAULTS[kind].items():
        assert value == (of_kinds[name] if name in of_kinds else getattr(plain, name)), name


ABSENT: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "tied": ("Llama", {"tie_word_embeddings": False}, ["tie_word_embeddings"]),
    "layers": (
        "Qwen3",
        {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
        ["layer_types"],
    ),
    "window": ("Qwen2", {"sliding_window": 6}, ["layer_types", "use_sliding_window"]),
    "caps": ("Gemma2", {"query_pre_attn_scalar": 256}, ["attn_logit_softcapping", "query_pre_attn_scalar"]),
    "pattern": ("Gemma3", {"sliding_window": 6, "sliding_window_pattern": 2}, ["layer_types", "rope_parameters"]),
    "epsilon": ("Phi3", {"rms_norm_eps": 1e-5, "tie_word_embeddings": False}, ["rms_norm_eps", "tie_word_embeddings"]),
    "base": ("SmolLM3", {"tie_word_embeddings": True}, ["rope_parameters", "no_rope_layers", "layer_types"]),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ABSENT)
def test_logits_with_settings_absent(name: str, tmp_path: Path) -> None:
    kind, more, absent = ABSENT[name]
    saved(tmp_path, kind, more)
    path = tmp_path / "config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({k: v for k, v in settings.items() if k not in absent} | more))
    if not set(more) - set(absent):
        path.write_text(json.dumps({k: v for k, v in settings.items() if k not in absent}))
    model = getattr(transformers, f"{kind}ForCausalLM").from_pretrained(tmp_path).float().eval()
    tokens = np.random.default_rng(0).integers(0, 90, 20).tolist()
    with torch.no_grad():
        wanted = model(torch.tensor([tokens])).logits[0].numpy()
    found = load(tmp_path, threads=1, context=30).session.feed(tokens, every=True)
    np.testing.assert_allclose(found, wanted, atol=3e-4 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("drop", "more", "message"),
    [
        ("experts.1.", {}, "must be numbered from 0 on, got [0, 2]"),
        ("experts.2.w1", {}, "'blk.0.ffn_gate_exps.weight' must be [3, "),
        ("", {"num_experts_per_tok": 4}, "'num_experts_per_tok' must be at most 3, got 4"),
        ("experts.1.w1", {"narrow": "experts.1.w1"}, "experts must be alike"),
    ],
)
def test_experts_that_are_not_complete(
    drop: str, more: dict[str, Any], message: str, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    saved(tmp_path, "Mixtral", {"num_local_experts": 3, "num_experts_per_tok": 2})
    path, narrow = tmp_path / "model.safetensors", more.get("narrow")
    tensors = load_file(path)
    kept = {k: v for k, v in tensors.items() if narrow or not drop or drop not in k}
    save_file(
        {k: v[:, :8].contiguous() if narrow and narrow in k else v for k, v in kept.items()}, path
    )
    settings = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(settings | more))
    with pytest.raises(UserError) as caught:
        load(tmp_path, threads=1, context=30)
    assert message in str(caught.value)


def test_shards_and_texts(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    saved(tmp_path, "Llama", {"eos_token_id": 3}).save_pretrained(tmp_path, max_shard_size="10KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    words = {f"w{i}": i for i in range(90)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    template = "{% for m in messages %}{{ m.content }} {% endfor %}w7"
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    model = load(tmp_path, threads=1, context=30)
    assert model.tokens_of("w5 w6") == [5, 6] and model.tokenizer.ends == {3}
    assert model.tokens_of([{"role": "user", "content": "w5"}]) == [5, 7]
    text = model.generate("w5 w6", 5)
    assert text == "".join(model.generate("w5 w6", 5, stream=True)) and text.startswith("w")


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("config.json", b"{", UserError, "must be JSON"),
        ("config.json", b"[]", UserError, "must be a JSON object"),
        ("config.json", b'{"model_type": "bert"}', UnsupportedError, "'bert' is not supported"),
        (
            "config.json",
            b'{"model_type": "llama"}',
            UserError,
            "must be a positive integer, got None",
        ),
        ("model.safetensors", b"", UserError, "must begin with the length"),
        ("model.safetensors", b"\xff" * 20, UserError, "must begin with the length"),
        ("model.safetensors", (2).to_bytes(8, "little") + b"{]", UserError, "must be JSON"),
        (
            "model.safetensors",
            (2).to_bytes(8, "little") + b"[]",
            UserError,
            "must be a JSON object",
        ),
        (
            "model.safetensors",
            (2).to_bytes(8, "little") + b"{}",
            UserError,
            "must be at most 0, as the tensors are",
        ),
    ],
)
def test_corrupt_folders(
    tmp_path: Path, name: str, content: bytes, error: type[Exception], message: str
) -> None:
    saved(tmp_path, "Llama", {})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=message):
        load(tmp_path, context=30)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"query_pre_attn_scalar": 0}, "'query_pre_attn_scalar' must be positive, got 0.0"),
        (
            {"rope_parameters": {"rope_type": "linear"}},
            "rotary embedding must be complete, got 'factor'",
        ),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": "far"}}, "must be complete"),
        ({"rope_parameters": {"rope_type": "spiral"}}, "type 'spiral' is not supported"),
        (
            {"model_type": "gemma2", "layer_types": ["full_attention"], "hidden_activation": None},
            "'layer_types' must have 2",
        ),
        ({"num_attention_heads": 0}, "'num_attention_heads' must be a positive integer"),
        (
            {"num_hidden_layers": 1 << 30},
            "'num_hidden_layers' must be at most 21, as the tensors are",
        ),
        ({"head_dim": 1 << 30}, "'head_dim' must be at most 90, as the tensors are"),
        (
            {"num_hidden_layers": 1},
            "the tensors blk.1.attn_norm.weight, .* and 6 more are not supported",
        ),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not supported; known are silu, swish"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention is not supported"),
        (
            {"model_type": "qwen3", "use_sliding_window": True, "layer_types": ["chunked"] * 2},
            "type 'chunked'",
        ),
    ],
)
def test_wrong_settings(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    saved(tmp_path, "Llama", {})
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    with pytest.raises((UserError, UnsupportedError), match=message):
        load(tmp_path, context=30)


def test_an_index_that_is_no_table_names_no_files(tmp_path: Path) -> None:
    saved(tmp_path, "Llama", {})
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": [1]}')
    with pytest.raises(UserError, match="must be at most 0, as the tensors are"):
        load(tmp_path, context=30)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"dtype": "F32", "shape": [2]}, "dtype, shape and data_offsets"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}, "must have 8 bytes"),
        ({"dtype": "F32", "shape": [2], "data_offsets": [0, 800]}, "must have 8 bytes"),
        ({"dtype": "F32", "shape": [-2], "data_offsets": [8, 0]}, "inside the file"),
        ({"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}, "dtype F4"),
    ],
)
def test_corrupt_tensors(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    table = json.dumps({"model.norm.weight": row}).encode()
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "model.safetensors").write_bytes(
        len(table).to_bytes(8, "little") + table + bytes(8)
    )
    with pytest.raises((UserError, UnsupportedError), match=message):
        read_folder(tmp_path)
