"""The configuration of a decoder, read off the metadata of a GGUF file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.block_types import Array
from ...base.errors import UnsupportedError
from ..decoder.architectures import Architecture, architecture
from ..decoder.config import DecoderConfig, Rotary, yarn_divisors, yarn_gain
from .container import GgufFile
from .keys import check_keys

_SCALINGS = ("none", "linear", "longrope", "yarn")
_DEFAULT_BASE = 10_000.0
_TINY = float(np.finfo(np.float32).tiny)
"""The smallest positive number that a file can hold without loss."""
_TURNS = (("yarn_beta_fast", 32.0), ("yarn_beta_slow", 1.0))
"""Turns in the original length between which YaRN blends frequencies."""


def decoder_config(file: GgufFile, context: int) -> DecoderConfig:
    """Return the configuration of a file for runs of up to `context` tokens. May raise UserError or
    UnsupportedError."""
    return _Metadata(file, context).config()


class _Metadata:
    def __init__(self, file: GgufFile, context: int) -> None:
        self.file, self.context = file, context
        self.name = file.text("general.architecture")
        self.row: Architecture = architecture(self.name, f"'{file.path}'")

    def config(self) -> DecoderConfig:
        """All of it."""
        check_keys(self.file, self.name)
        width, heads = self._size("embedding_length"), self._size("attention.head_count")
        layers = self._layers()
        key_size = self._size("attention.key_length", width // heads)
        is_local = self._local(layers)
        rotary = self._rotary(key_size)
        by_width = self.row.scales_by_width_at == layers
        return DecoderConfig(
            name=self.file.text("general.name", self.file.path.stem),
            architecture=self.row,
            rotates_pairs=self.row.rotates_pairs,
            vocabulary=self._vocabulary(),
            width=width,
            layers=layers,
            heads=heads,
            kv_heads=self._size("attention.head_count_kv", heads),
            key_size=key_size,
            value_size=self._size("attention.value_length", width // heads),
            epsilon=self._number("attention.layer_norm_rms_epsilon", min_value=0.0),
            context=self._integer("context_length"),
            rotary=rotary,
            local_rotary=self._local_rotary(key_size, rotary),
            window=self._window() if any(is_local) else 0,
            is_local=is_local,
            rotated=self.row.rotated(layers),
            query_scale=(width / heads if by_width else key_size) ** -0.5,
            experts_used=self._experts_used(),
            joins_to_one=self._flag("expert_weights_norm", True),
            score_cap=self._number("attn_logit_softcapping", 0.0),
            logit_cap=self._number("final_logit_softcapping", 0.0),
        )

    def _experts_used(self) -> int:
        experts = self._integer("expert_count", 0, min_value=0)
        used = self._integer("expert_used_count", 0, min_value=0)
        for name, router in self.file.tensors.items():
            if name.endswith("ffn_gate_inp.weight") and router.dims[:1] != (experts,):
                rule = f"'{self._key('expert_count')}' must be the rows of '{name}' {list(router.dims)}"
                raise self.file.rule(rule, str(experts))
        if experts and not 0 < used <= experts:
            rule = f"'{self._key('expert_used_count')}' must be in [1, {experts}]"
            raise self.file.rule(rule, str(used))
        return used if experts else 0

    def _vocabulary(self) -> int:
        table = self.file.tensors.get("token_embd.weight")
        if table is None or len(table.dims) != 2:
            found = "none" if table is None else str(list(table.dims))
            raise self.file.rule("'token_embd.weight' must have 2 dims", found)
        return table.dims[0]

    def _local(self, layers: int) -> tuple[bool, ...]:
        """Return whether each layer has the window: every n-th has none, or as a list says."""
        if self.row.global_every == 1:
            return (False,) * layers
        key = self._key("attention.sliding_window_pattern")
        given: Any = self.file.metadata.get(key, self.row.global_every)
        if isinstance(given, np.ndarray | list):
            if len(given) < layers:
                raise self.file.rule(f"'{key}' must have {layers} elements", str(len(given)))
            return tuple(bool(one) for one in given[:layers])
        every = self.file.integer(key, self.row.global_every, min_value=1)
        return tuple((layer + 1) % every > 0 for layer in range(layers))

    def _window(self) -> int:
        return self._integer("attention.sliding_window", 0, min_value=0)

    def _rotary(self, key_size: int) -> Rotary:
        """The rotary embedding of layers without a window."""
        size, base = self._rotated_size(key_size), self._base("rope.freq_base", _DEFAULT_BASE)
        gain, scaling = self._number("rope.scaling.attn_factor", 1.0), self._scaling()
        old = self._number("rope.scale_linear", 0.0, min_value=0.0)
        factor = self._number("rope.scaling.factor", old, min_value=0.0) or 1.0
        divisors = self._factors(size)
        if scaling == "linear":
            divisors = divisors * factor
        if scaling == "yarn":
            original = self._integer("rope.scaling.original_context_length")
            if base <= 1:
                rule = f"'{self._key('rope.freq_base')}' must be more than 1 with YaRN"
                raise self.file.rule(rule, str(base))
            fast, slow = (self._number(f"rope.scaling.{k}", n, min_value=_TINY) for k, n in _TURNS)
            divisors = divisors * yarn_divisors(size, base, factor, original, fast, slow)
            gain *= yarn_gain(factor)
        return Rotary.of(size, base, divisors, gain)

    def _local_rotary(self, key_size: int, rotary: Rotary) -> Rotary:
        key = "rope.freq_base_swa"
        if not self.row.local_base and self._key(key) not in self.file.metadata:
            return rotary
        return Rotary.of(self._rotated_size(key_size), self._base(key, self.row.local_base))

    def _base(self, key: str, default: float) -> float:
        return self._number(key, default, min_value=_TINY)

    def _rotated_size(self, key_size: int) -> int:
        size = self._integer("rope.dimension_count", key_size, min_value=2)
        if size % 2 or size > key_size:
            rule = f"'{self._key('rope.dimension_count')}' must be even and at most {key_size}"
            raise self.file.rule(rule, str(size))
        return size

    def _scaling(self) -> str:
        found = self.file.text(self._key("rope.scaling.type"), "linear")
        if found not in _SCALINGS:
            what = f"'{self.file.path}': rope scaling '{found}' is not supported"
            raise UnsupportedError(what, f"known are {', '.join(_SCALINGS)}")
        return found

    def _factors(self, size: int) -> Array:
        """The divisors of frequencies: factors of Llama 3, or of long or short texts.

        Long texts go beyond the original length.
        """
        key = self._key("rope.scaling.original_context_length")
        original = self.file.number(key, math.inf)
        kind = "long" if -(-self.context // 256) * 256 > original else "short"
        names = ("rope_freqs.weight", f"rope_factors_{kind}.weight")
        found = next((self.file.tensors[n] for n in names if n in self.file.tensors), None)
        if found is None:
            return np.ones(size // 2)
        if found.dims != (size // 2,):
            raise self.file.rule(f"'{found.name}' must be [{size // 2}]", str(list(found.dims)))
        factors = found.values().astype(np.float64)
        if not (np.isfinite(factors) & (factors > 0)).all():
            raise self.file.rule(f"'{found.name}' must be positive", str(factors.min()))
        return factors

    def _key(self, key: str) -> str:
        return f"{self.name}.{key}"

    def _number(
        self, key: str, default: float | None = None, min_value: float = -math.inf
    ) -> float:
        """A finite number of at least `min_value`. May raise UserError."""
        found = float(self.file.number(self._key(key), default))
        if not (math.isfinite(found) and found >= min_value):
            rule = "positive" if min_value == _TINY else "finite" if min_value < 0 else "at least 0"
            raise self.file.rule(f"'{self._key(key)}' must be {rule}", str(found))
        return found

    def _layers(self) -> int:
        return self._bounded("block_count", None, len(self.file.tensors), "the number of tensors")

    def _size(self, key: str, default: int | None = None) -> int:
        dims = (one for tensor in self.file.tensors.values() for one in tensor.dims)
        return self._bounded(key, default, max(dims, default=0), "the largest size of a tensor")

    def _bounded(self, key: str, default: int | None, max_value: int, what: str) -> int:
        """An integer that is part of the sizes of tensors. Raise UserError for one that cannot be."""
        found = self._integer(key, default)
        if found > max_value:
            rule = f"'{self._key(key)}' must be at most {max_value}, {what}"
            raise self.file.rule(rule, str(found))
        return found

    def _flag(self, key: str, default: bool) -> bool:
        found = self.file.metadata.get(self._key(key), default)
        if not isinstance(found, bool):
            raise self.file.rule(f"'{self._key(key)}' must be true or false", repr(found)[:40])
        return found

    def _integer(self, key: str, default: int | None = None, min_value: int = 1) -> int:
        """Raise UserError for a list too: sizes that differ by layer."""
        given = self.file.metadata.get(self._key(key))
        if isinstance(given, np.ndarray | list) and len(set(map(int, given))) > 1:
            what = f"'{self.file.path}': '{self._key(key)}' that differs by layer is not supported"
            raise UnsupportedError(what, "give a model whose layers are alike")
        if isinstance(given, np.ndarray | list) and len(given):
            return int(given[0])
        return self.file.integer(self._key(key), default, min_value)
