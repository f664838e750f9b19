"""The configuration of a decoder, read off the metadata of a GGUF file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.errors import UnsupportedError
from ..decoder.architectures import Architecture, architecture
from ..decoder.config import DecoderConfig, Rotary, yarn_divisors, yarn_gain
from .container import GgufFile

_SCALINGS = ("none", "linear", "longrope", "yarn")
_DEFAULT_BASE = 10_000.0


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
        self._check_supported()
        width, heads = self._integer("embedding_length"), self._integer("attention.head_count")
        layers = self._integer("block_count")
        key_size = self._integer("attention.key_length", width // heads)
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
            kv_heads=self._integer("attention.head_count_kv", heads),
            key_size=key_size,
            value_size=self._integer("attention.value_length", width // heads),
            epsilon=float(self.file.number(self._key("attention.layer_norm_rms_epsilon"))),
            context=self._integer("context_length"),
            rotary=rotary,
            local_rotary=self._local_rotary(key_size, rotary),
            window=self._window() if any(is_local) else 0,
            is_local=is_local,
            query_scale=(width / heads if by_width else key_size) ** -0.5,
            experts_used=self._experts_used(),
            score_cap=float(self._number("attn_logit_softcapping", 0.0)),
            logit_cap=float(self._number("final_logit_softcapping", 0.0)),
        )

    def _check_supported(self) -> None:
        """Raise UnsupportedError for a key that changes the arithmetic in a way that no row knows."""
        scale = self._number("logit_scale", 1.0)
        if scale not in (0, 1):
            what = f"'{self.file.path}': logit_scale {scale} of '{self.name}' is not supported"
            raise UnsupportedError(what, "give a model without it")

    def _experts_used(self) -> int:
        experts = self._integer("expert_count", 0, min_value=0)
        used = self._integer("expert_used_count", 0, min_value=0)
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
        size, base = (
            self._rotated_size(key_size),
            float(self._number("rope.freq_base", _DEFAULT_BASE)),
        )
        gain, scaling = float(self._number("rope.scaling.attn_factor", 1.0)), self._scaling()
        factor = float(self._number("rope.scaling.factor", 1.0))
        if scaling == "linear":
            return Rotary.of(size, base, factor, gain)
        if scaling == "yarn":
            original = self._integer("rope.scaling.original_context_length")
            return Rotary.of(
                size, base, yarn_divisors(size, base, factor, original), gain * yarn_gain(factor)
            )
        return Rotary.of(size, base, self._factors(size), gain)

    def _local_rotary(self, key_size: int, rotary: Rotary) -> Rotary:
        base = float(self._number("rope.freq_base_swa", self.row.local_base))
        return Rotary.of(self._rotated_size(key_size), base) if base else rotary

    def _rotated_size(self, key_size: int) -> int:
        size = self._integer("rope.dimension_count", key_size, min_value=2)
        if size % 2 or size > key_size:
            rule = f"'{self._key('rope.dimension_count')}' must be even and at most {key_size}"
            raise self.file.rule(rule, str(size))
        return size

    def _scaling(self) -> str:
        found = self.file.text(self._key("rope.scaling.type"), "none")
        if found not in _SCALINGS:
            what = f"'{self.file.path}': rope scaling '{found}' is not supported"
            raise UnsupportedError(what, f"known are {', '.join(_SCALINGS)}")
        return found

    def _factors(self, size: int) -> Any:
        """The divisors of frequencies: factors of Llama 3, or of long or short texts.

        Long texts go beyond the original length.
        """
        original = self._number("rope.scaling.original_context_length", math.inf)
        kind = "long" if -(-self.context // 256) * 256 > original else "short"
        names = ("rope_freqs.weight", f"rope_factors_{kind}.weight")
        found = next((self.file.tensors[n] for n in names if n in self.file.tensors), None)
        if found is None:
            return 1.0
        if found.dims != (size // 2,):
            raise self.file.rule(f"'{found.name}' must be [{size // 2}]", str(list(found.dims)))
        return found.values().astype(np.float64)

    def _key(self, key: str) -> str:
        return f"{self.name}.{key}"

    def _number(self, key: str, default: float | None = None) -> int | float:
        return self.file.number(self._key(key), default)

    def _integer(self, key: str, default: int | None = None, min_value: int = 1) -> int:
        """Raise UserError for a list too: sizes that differ by layer."""
        given = self.file.metadata.get(self._key(key))
        if isinstance(given, np.ndarray | list) and len(set(map(int, given))) > 1:
            what = f"'{self.file.path}': '{self._key(key)}' that differs by layer is not supported"
            raise UnsupportedError(what, "give a model whose layers are alike")
        if isinstance(given, np.ndarray | list) and len(given):
            return int(given[0])
        return self.file.integer(self._key(key), default, min_value)
