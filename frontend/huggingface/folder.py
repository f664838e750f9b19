"""A folder of a model: its configuration in the terms of decoders, its weights, and its tokenizer's files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ...base.block_types import Array
from ...base.errors import UnsupportedError, UserError
from ...base.file_errors import unreadable
from ...base.records import dataclass
from ..decoder.architectures import architecture
from ..decoder.config import DecoderConfig, Rotary, yarn_divisors, yarn_gain
from ..decoder.weights import Weight
from .names import renamed
from .safetensors import read_safetensors

_ARCHITECTURES = {"mistral": "llama", "gemma3_text": "gemma3"}
"""Types of models whose decoder has another name here."""
_ROTARY = ("default", "linear", "llama3", "yarn", "longrope")


@dataclass(frozen=True)
class ModelFolder:
    """A folder of Hugging Face Transformers: `settings` is its `config.json`."""

    path: Path
    settings: dict[str, Any]
    weights: dict[str, Weight]

    def json(self, name: str) -> dict[str, Any]:
        """Return an object in a file of the folder; empty where there is no such file. Raise UserError for a corrupt
        one."""
        return read_json(self.path / name) if (self.path / name).is_file() else {}

    @property
    def context(self) -> int:
        """The largest number of tokens the model was made for."""
        return self.integer("max_position_embeddings")

    def config(self, context: int) -> DecoderConfig:
        """Return the configuration for runs of up to `context` tokens. May raise UserError or UnsupportedError."""
        return _config(self, context)

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a positive integer of the settings. Raise UserError if it is missing or none."""
        value = self.settings.get(name)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
            raise self.rule(f"'{name}' must be a positive integer", str(value))
        return value

    def number(self, name: str, default: float) -> float:
        """Return a number of the settings. Raise UserError if it is none."""
        value = self.settings.get(name)
        value = default if value is None else value
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise self.rule(f"'{name}' must be a number", str(value))
        return float(value)

    def rule(self, rule: str, values: str) -> UserError:
        """Return the error for a folder that breaks a rule."""
        text = f"'{self.path}': {rule}, got {values}"
        return UserError(text)


def read_folder(path: Path) -> ModelFolder:
    """Read a folder with `config.json` and safetensors. May raise UserError or UnsupportedError."""
    whole = read_json(path / "config.json")
    settings = _asread_json(whole.get("text_config")) or whole  # of a model that sees pictures too
    name = _architecture(settings)
    architecture(name, f"'{path}'")
    is_tied = bool(settings.get("tie_word_embeddings", whole.get("tie_word_embeddings", True)))
    return ModelFolder(path, settings, renamed(name, _tensors(path), is_tied, f"'{path}'"))


def _architecture(settings: dict[str, Any]) -> str:
    name = str(settings.get("model_type", ""))
    return _ARCHITECTURES.get(name, name)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Raise UserError for a file that holds none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        text = f"'{path}': the file must be JSON, got {error}"
        raise UserError(text) from None
    if not isinstance(found, dict):
        text = f"'{path}': the file must be a JSON object, got {type(found).__name__}"
        raise UserError(text)
    return found


def _tensors(path: Path) -> dict[str, Weight]:
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        return read_safetensors(path / "model.safetensors")
    files = _asread_json(read_json(index).get("weight_map"))
    found: dict[str, Weight] = {}
    for name in sorted(set(map(str, files.values()))):
        if Path(name).name != name:
            text = f"'{index}': files must lie in the folder, got '{name}'"
            raise UserError(text)
        found |= read_safetensors(path / name)
    return found


def _config(folder: ModelFolder, context: int) -> DecoderConfig:
    name = _architecture(folder.settings)
    row = architecture(name, f"'{folder.path}'")
    width, heads = folder.integer("hidden_size"), folder.integer("num_attention_heads")
    layers = folder.integer("num_hidden_layers")
    key_size = folder.integer("head_dim", width // heads)
    rotary = _rotary(folder, key_size, "full_attention", context)
    is_local = _local(folder, layers)
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
        layers=layers,
        heads=heads,
        kv_heads=folder.integer("num_key_value_heads", heads),
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
        query_scale=scalar**-0.5,
        score_cap=folder.number("attn_logit_softcapping", 0.0),
        logit_cap=folder.number("final_logit_softcapping", 0.0),
    )


def _local(folder: ModelFolder, layers: int) -> tuple[bool, ...]:
    """Return whether each layer has the window."""
    kinds, window = folder.settings.get("layer_types"), folder.settings.get("sliding_window")
    if window is None or folder.settings.get("use_sliding_window") is False:
        return (False,) * layers
    if isinstance(kinds, list):
        if len(kinds) != layers:
            raise folder.rule(f"'layer_types' must have {layers} elements", str(len(kinds)))
        return tuple(kind == "sliding_attention" for kind in kinds)
    every = architecture(_architecture(folder.settings), "").global_every
    return tuple(every == 1 or (layer + 1) % every > 0 for layer in range(layers))


def _rotary(folder: ModelFolder, key_size: int, layers: str, context: int) -> Rotary:
    """The rotary embedding of layers of a type, as `rope_parameters` or the older `rope_scaling` say."""
    settings = folder.settings
    given = _asread_json(settings.get("rope_parameters") or settings.get("rope_scaling"))
    given = _asread_json(given.get(layers, given))
    base = settings.get("rope_theta", 10_000.0)
    if layers == "sliding_attention" and "rope_local_base_freq" in settings:
        base, given = settings["rope_local_base_freq"], {}
    kind = str(given.get("rope_type", given.get("type", "default")))
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


def _asread_json(value: Any) -> dict[str, Any]:
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
        factor = float(given["factor"])
        gain = float(given.get("attention_factor") or yarn_gain(factor))
        return Rotary.of(size, base, yarn_divisors(size, base, factor, original), gain)
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


def _llama3_divisors(size: int, base: float, given: dict[str, Any]) -> Array:
    """Return the divisors of Llama 3.1: 1 for fast pairs, the factor for slow ones, and a blend between them."""
    factor, low, high = (float(given[k]) for k in ("factor", "low_freq_factor", "high_freq_factor"))
    original = float(given["original_max_position_embeddings"])
    turns = original * base ** (-np.arange(0, size, 2) / size) / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return np.asarray(1 / (share + (1 - share) / factor))
