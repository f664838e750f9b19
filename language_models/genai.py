"""A folder of onnxruntime-genai: its decoder is an ONNX model that takes tokens, a mask and caches under names that
`genai_config.json` says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..base.block_types import Array
from ..base.dtypes import F32, DType
from ..base.errors import UnsupportedError, UserError
from ..base.records import dataclass
from ..driver.compiler import compile as compile_model
from ..frontend.decoder.caches import Cache
from ..frontend.huggingface import ModelFolder, read_json
from ..runtime.executor import CompiledModel
from .session import Step

CONFIG = "genai_config.json"


@dataclass(frozen=True)
class GenaiConfig:
    """The decoder of a folder: sizes as those of `DecoderConfig`, and the names of its inputs and outputs.

    `caches`: the input and the output of every cache, keys and values of layer 0 first.
    """

    path: Path
    vocabulary: int
    context: int
    layers: int
    kv_heads: int
    key_size: int
    value_size: int
    file: Path
    tokens: str
    mask: str
    positions: str
    logits: str
    caches: tuple[tuple[str, str], ...]

    @property
    def window(self) -> int:
        """Return 0: caches keep all tokens."""
        return 0

    def caches_of(self, dtype: DType) -> list[Cache]:
        """Return the caches in the order of inputs."""
        sizes = (self.key_size, self.value_size) * self.layers
        return [
            Cache(past, dtype, size, False)
            for (past, _), size in zip(self.caches, sizes, strict=True)
        ]

    def compiled(self, new: int, past: int, cache: DType, **options: Any) -> CompiledModel:
        """Compile the decoder for one sequence. May raise UserError or UnsupportedError."""
        if cache != F32:
            raise UserError(
                f"'{self.path}': the model says the type of its caches; leave cache out"
            )
        rows = f"s64[1,T=1..{new}]"
        inputs = {self.tokens: rows, self.mask: "s64[1,S]"}
        inputs |= {self.positions: rows} if self.positions else {}
        inputs |= {
            name: f"f32[1,{self.kv_heads},P=0..{past},{self.key_size}]" for name, _ in self.caches
        }
        alias = {present: name for name, present in self.caches}
        try:
            return compile_model(self.file, inputs=inputs, alias=alias, **options)
        except UserError as error:
            raise UnsupportedError(
                f"'{self.path}': decoders with f32 caches of one length, as the model builder makes them for CPUs, are "
                f"read, and this one is another ({error})",
                "give its ONNX file to graphc.compile",
            ) from error

    def step_of(self, model: CompiledModel) -> Step:
        """Return the compiled decoder as a session calls it."""
        return _Step(self, model)


class _Step:
    """Tokens s64 [1, T] instead of embeddings; logits of all of them, of which some rows are wanted."""

    def __init__(self, config: GenaiConfig, model: CompiledModel) -> None:
        self._config, self._model = config, model
        self._order = [spec.name for spec in model.inputs]
        self._logits = [spec.name for spec in model.outputs].index(config.logits)

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Run a step of tokens, rows and caches."""
        tokens, rows, *caches = arrays
        config, past, new = self._config, caches[0].shape[2], tokens.shape[1]
        given = dict(zip((name for name, _ in config.caches), caches, strict=True))
        given[config.tokens] = tokens
        given[config.mask] = np.ones((1, past + new), np.int64)
        if config.positions:
            given[config.positions] = np.arange(past, past + new)[None]
        results = self._model(*(given[name] for name in self._order))
        return (results[self._logits][:, rows].astype(np.float32, copy=False),)


def is_genai(path: Path) -> bool:
    """Return whether a folder is one of onnxruntime-genai."""
    return (path / CONFIG).is_file()


def read_genai(path: Path) -> tuple[GenaiConfig, ModelFolder]:
    """Return the decoder, and the folder of its tokenizer. Raise UserError for settings that are missing or no
    numbers."""
    model = _part(read_json(path / CONFIG), "model", path)
    decoder = _part(model, "decoder", path)
    inputs, outputs = (_part(decoder, name, path) for name in ("inputs", "outputs"))
    layers = _number(decoder, "num_hidden_layers", path)
    caches = tuple(
        (
            _name(inputs, f"past_{kind}_names", path) % n,
            _name(outputs, f"present_{kind}_names", path) % n,
        )
        for n in range(layers)
        for kind in ("key", "value")
    )
    size = _number(decoder, "head_size", path)
    return GenaiConfig(
        path, _number(model, "vocab_size", path), _number(model, "context_length", path), layers,
        _number(decoder, "num_key_value_heads", path), size, size, path / _name(decoder, "filename", path),
        _name(inputs, "input_ids", path), _name(inputs, "attention_mask", path),
        _name(inputs, "position_ids", path, ""), _name(outputs, "logits", path), caches,
    ), ModelFolder(path, dict(model), {})  # fmt: skip


def _part(settings: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    found = settings.get(name)
    if not isinstance(found, dict):
        raise UserError(f"'{path / CONFIG}': '{name}' must be an object, got {found!r}")
    return found


def _number(settings: Mapping[str, Any], name: str, path: Path) -> int:
    found = settings.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found < 1 << 31:
        raise UserError(f"'{path / CONFIG}': '{name}' must be a positive integer, got {found!r}")
    return found


def _name(settings: Mapping[str, Any], name: str, path: Path, default: str | None = None) -> str:
    found = settings.get(name, default)
    is_file = name != "filename" or (isinstance(found, str) and Path(found).name == found)
    is_pattern = not name.endswith("_names") or (
        isinstance(found, str) and found.count("%d") == 1 == found.count("%")
    )
    if not isinstance(found, str) or not is_file or not is_pattern:
        raise UserError(f"'{path / CONFIG}': '{name}' must be a name, got {found!r}")
    return found
