"""Settings of layers in `config.json`, and those of Transformers where it says nothing."""

from __future__ import annotations

from typing import Any

from ...base.errors import UnsupportedError
from ..decoder.architectures import Architecture
from .model_folder import ModelFolder

_GEMMA = {
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
    "sliding_window": 4096, "tie_word_embeddings": True, "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh",
}  # fmt: skip
_QWEN = {
    "max_position_embeddings": 32768, "use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28,
    "tie_word_embeddings": False, "rms_norm_eps": 1e-6,
}  # fmt: skip

DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048, "tie_word_embeddings": False, "rms_norm_eps": 1e-6},
    "mistral": {
        "max_position_embeddings": 131072, "num_key_value_heads": 8, "sliding_window": 4096,
        "tie_word_embeddings": False, "rms_norm_eps": 1e-6,
    },
    "mixtral": {
        "max_position_embeddings": 131072, "num_key_value_heads": 8, "sliding_window": None, "rope_theta": 1e6,
        "tie_word_embeddings": False, "rms_norm_eps": 1e-5, "num_experts_per_tok": 2,
    },
    "qwen2": _QWEN,
    "qwen3": _QWEN | {"head_dim": 128},
    "qwen3_moe": {
        "max_position_embeddings": 32768, "num_key_value_heads": 4, "use_sliding_window": False, "sliding_window": 4096,
        "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "num_experts_per_tok": 8, "norm_topk_prob": False,
    },
    "gemma2": _GEMMA | {
        "max_position_embeddings": 8192, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    },
    "gemma3_text": _GEMMA | {
        "max_position_embeddings": 131072, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6,
    },
    "phi3": {
        "max_position_embeddings": 4096, "original_max_position_embeddings": 4096, "tie_word_embeddings": False,
        "rms_norm_eps": 1e-5,
    },
    "smollm3": {
        "max_position_embeddings": 32768, "num_key_value_heads": 4, "use_sliding_window": False,
        "no_rope_layer_interval": 4, "rope_theta": 2e6, "tie_word_embeddings": True, "rms_norm_eps": 1e-6,
    },
}  # fmt: skip
"""Settings by the type of the model, as in Transformers 5.24."""

_SILU, _GELU = ("silu", "swish"), ("gelu_pytorch_tanh", "gelu_new")
_ALL_LOCAL = ("mistral", "mixtral", "phi3", "qwen3_moe")
"""Types whose window, if there is one, is that of all layers."""

_LAYER_TYPES = {"sliding_attention": True, "full_attention": False}


def check_settings(folder: ModelFolder, row: Architecture) -> None:
    """Raise UnsupportedError for an activation or a mask that the architecture does not have."""
    settings = folder.settings
    for name in ("hidden_act", "hidden_activation"):
        found, known = settings.get(name), _GELU if row.gelu else _SILU
        is_read = (name == "hidden_activation") == row.gelu
        if is_read and found not in (None, *known):
            what = f"'{folder.path}': {name} '{found}' is not supported"
            raise UnsupportedError(what, f"known are {', '.join(known)}")
    if settings.get("use_bidirectional_attention"):
        what = f"'{folder.path}': use_bidirectional_attention is not supported"
        raise UnsupportedError(what, "give a decoder whose tokens see those before them")


def rotated_layers(folder: ModelFolder, layers: int) -> tuple[bool, ...]:
    """Return whether each layer has rotary embedding. Raise UserError for a list of another length."""
    given = folder.settings.get("no_rope_layers")  # 1 where a layer has it, in spite of the name
    if given is not None and _type(folder) == "smollm3":
        return tuple(map(bool, _each(folder, "no_rope_layers", layers)))
    if "no_rope_layer_interval" not in folder.settings:
        return (True,) * layers
    every = folder.integer("no_rope_layer_interval")
    return tuple((layer + 1) % every != 0 for layer in range(layers))


def local_layers(folder: ModelFolder, rotated: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return whether each layer has the window. Raise UserError for a list of another length, UnsupportedError for a
    type of layers that is not known."""
    settings, kind, layers = folder.settings, _type(folder), len(rotated)
    if settings.get("sliding_window") is None or settings.get("use_sliding_window") is False:
        return (False,) * layers
    if kind in _ALL_LOCAL or kind == "llama":
        return (kind != "llama",) * layers
    if settings.get("layer_types") is not None:
        return tuple(_is_local(folder, one) for one in _each(folder, "layer_types", layers))
    if kind == "smollm3":
        return tuple(not one for one in rotated)
    if kind in ("qwen2", "qwen3"):
        first = folder.integer("max_window_layers")
        return tuple(layer >= first for layer in range(layers))
    every = folder.integer("sliding_window_pattern") if kind == "gemma3_text" else 2
    return tuple((layer + 1) % every > 0 for layer in range(layers))


def _type(folder: ModelFolder) -> str:
    return str(folder.settings.get("model_type"))


def _is_local(folder: ModelFolder, kind: Any) -> bool:
    if kind not in _LAYER_TYPES:
        what = f"'{folder.path}': layers of type '{kind}' are not supported"
        raise UnsupportedError(what, f"known are {', '.join(_LAYER_TYPES)}")
    return _LAYER_TYPES[kind]


def _each(folder: ModelFolder, name: str, layers: int) -> list[Any]:
    """A list with an element for each layer."""
    found = folder.settings[name]
    if not isinstance(found, list) or len(found) != layers:
        count = len(found) if isinstance(found, list) else found
        raise folder.rule(f"'{name}' must have {layers} elements", str(count))
    return found
