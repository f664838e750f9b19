"""A folder of a model: its configuration in the terms of decoders, its weights, and its tokenizer's files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ...base.block_types import Array
from ...base.errors import UnsupportedError, UserError
from ...base.suggestion import suggestion
from ..decoder.architectures import architecture
from ..decoder.config import DecoderConfig, Rotary, yarn_divisors, yarn_gain
from ..decoder.weights import Weight
from .model_folder import ModelFolder, read_json
from .names import renamed
from .safetensors import read_safetensors
from .settings import DEFAULTS, check_settings, local_layers, rotated_layers

_ARCHITECTURES = {
    "mistral": "llama", "mixtral": "llama", "qwen3_moe": "qwen3moe", "gemma3_text": "gemma3",
}  # fmt: skip
"""Types of models whose decoder has another name here."""
_ROTARY = ("default", "linear", "llama3", "yarn", "longrope")


def read_folder(path: Path) -> ModelFolder:
    """Read a folder with `config.json` and safetensors. May raise UserError or UnsupportedError."""
    whole = read_json(path / "config.json")
    settings = _object(whole.get("text_config")) or whole  # of a model that sees pictures too
    name, kind = _architecture(settings), str(settings.get("model_type", ""))
    if kind not in DEFAULTS:
        what = f"'{path}': architecture '{kind}' is not supported, known are {', '.join(DEFAULTS)}"
        raise UnsupportedError(what, suggestion(kind, list(DEFAULTS)) or "give another model")
    both = {"tie_word_embeddings": whole.get("tie_word_embeddings"), **settings}
    given = {key: value for key, value in both.items() if key in settings or value is not None}
    settings = DEFAULTS[kind] | given
    is_tied = bool(settings["tie_word_embeddings"])
    return ModelFolder(path, settings, renamed(name, _tensors(path), is_tied, f"'{path}'"))


def _architecture(settings: dict[str, Any]) -> str:
    name = str(settings.get("model_type", ""))
    return _ARCHITECTURES.get(name, name)


def _tensors(path: Path) -> dict[str, Weight]:
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        return read_safetensors(path / "model.safetensors")
    files = _object(read_json(index).get("weight_map"))
    found: dict[str, Weight] = {}
    for name in sorted(set(map(str, files.values()))):
        if Path(name).name != name:
            text = f"'{index}': files must lie in the folder, got '{name}'"
            raise UserError(text)
        found |= read_safetensors(path / name)
    return found


def folder_config(folder: ModelFolder, context: int) -> DecoderConfig:
    """Return the configuration of a folder for runs of up to `context` tokens. May raise UserError or
    UnsupportedError."""
    name = _architecture(folder.settings)
    row = architecture(name, f"'{folder.path}'")
    check_settings(folder, row)
    width, heads = folder.size("hidden_size"), folder.size("num_attention_heads")
    rotated = rotated_layers(folder, folder.layers)
    key_size = folder.size("head_dim", width // heads)
    rotary = _rotary(folder, key_size, "full_attention", context)
    is_local = local_layers(folder, rotated)
    scalar = folder.number("query_pre_attn_scalar", float(key_size))
    if scalar <= 0:
        raise folder.rule("'query_pre_attn_scalar' must be positive", str(scalar))
    table = folder.weights.get("token_embd.weight")
    return DecoderConfig(
        name=folder.path.name,
        architecture=row,
        rotates_pairs=False,
        vocabulary=table.dims[0] if table and table.dims else 0,
        width=width,
        layers=folder.layers,
        heads=heads,
        kv_heads=folder.size("num_key_value_heads", heads),
        key_size=key_size,
        value_size=key_size,
        epsilon=folder.number("rms_norm_eps", 1e-6),
        context=folder.context,
        rotary=rotary,
        local_rotary=_rotary(folder, key_size, "sliding_attention", context)
        if any(is_local)
        else rotary,
        window=folder.integer("sliding_window") if any(is_local) else 0,
        is_local=is_local,
        rotated=rotated,
        query_scale=scalar**-0.5,
        experts_used=_experts_used(folder),
        joins_to_one=bool(folder.settings.get("norm_topk_prob", True)),
        score_cap=folder.number("attn_logit_softcapping", 0.0),
        logit_cap=folder.number("final_logit_softcapping", 0.0),
    )


def _experts_used(folder: ModelFolder) -> int:
    """Experts that each token goes through; 0 where no layer has any."""
    routers = [x for name, x in folder.weights.items() if name.endswith("ffn_gate_inp.weight")]
    if not routers:
        return 0
    used = folder.integer("num_experts_per_tok")
    least = min(x.dims[0] if x.dims else 0 for x in routers)
    if used > least:
        raise folder.rule(f"'num_experts_per_tok' must be at most {least}", str(used))
    return used


def _rotary(folder: ModelFolder, key_size: int, layers: str, context: int) -> Rotary:
    """The rotary embedding of layers of a type, as `rope_parameters` or the older `rope_scaling` say."""
    settings = folder.settings
    given = _object(settings.get("rope_parameters") or settings.get("rope_scaling"))
    base, of_kind = settings.get("rope_theta", 10_000.0), given.get(layers)
    if layers == "sliding_attention" and "rope_local_base_freq" in settings:
        base, given = settings["rope_local_base_freq"], {}
    given = given if of_kind is None else _object(of_kind)
    kind = str(given.get("rope_type", given.get("type", "default")))
    if kind in ("su", "yarn") and settings.get("model_type") == "phi3":
        kind = "longrope"  # by its first names
    if kind not in _ROTARY:
        what = f"'{folder.path}': rotary embedding of type '{kind}' is not supported"
        raise UnsupportedError(what, f"known are {', '.join(_ROTARY)}")
    share = given.get("partial_rotary_factor", settings.get("partial_rotary_factor") or 1)
    try:
        size = int(key_size * float(share))
        return _scaled_rotary(
            kind, size, float(given.get("rope_theta", base)), given, folder, context
        )
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        rule = "the parameters of the rotary embedding must be complete"
        raise folder.rule(rule, str(error)) from None


def _object(value: Any) -> dict[str, Any]:
    """Return a JSON object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _scaled_rotary(
    kind: str, size: int, base: float, given: dict[str, Any], folder: ModelFolder, context: int
) -> Rotary:
    if kind == "linear":
        return Rotary.of(size, base, float(given["factor"]))
    if kind == "llama3":
        return Rotary.of(size, base, _llama3_divisors(size, base, given))
    original = int(
        given.get("original_max_position_embeddings")
        or folder.integer("original_max_position_embeddings", folder.context)
    )
    if kind == "yarn":
        return _yarn(size, base, given, original)
    if kind == "longrope":
        factors = given["long_factor" if context > original else "short_factor"]
        scale = folder.context / original
        gain = math.sqrt(1 + math.log(scale) / math.log(original)) if scale > 1 else 1.0
        return Rotary.of(
            size,
            base,
            np.asarray(factors, np.float64),
            float(given.get("attention_factor") or gain),
        )
    return Rotary.of(size, base)


def _yarn(size: int, base: float, given: dict[str, Any], original: int) -> Rotary:
    factor, all_dims = float(given["factor"]), given.get("mscale_all_dim")
    gain = yarn_gain(factor)
    if given.get("mscale") and all_dims:
        gain = yarn_gain(factor, float(given["mscale"])) / yarn_gain(factor, float(all_dims))
    fast, slow = float(given.get("beta_fast") or 32), float(given.get("beta_slow") or 1)
    whole = bool(given.get("truncate", True))
    divisors = yarn_divisors(size, base, factor, original, fast, slow, whole)
    return Rotary.of(size, base, divisors, float(given.get("attention_factor") or gain))


def _llama3_divisors(size: int, base: float, given: dict[str, Any]) -> Array:
    """Return the divisors of Llama 3.1: 1 for fast pairs, the factor for slow ones, and a blend between them."""
    factor, low, high = (float(given[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    original = float(given["original_max_position_embeddings"])
    turns = original * base ** (-np.arange(0, size, 2) / size) / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / (share + (1 - share) / factor))
