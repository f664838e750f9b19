"""The metadata keys of decoders by their meaning: a key that changes the arithmetic and is not read is refused."""

from __future__ import annotations

import math
from typing import Any

from ...base.errors import UnsupportedError
from .container import GgufFile

_READ = frozenset((
    "attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.layer_norm_rms_epsilon",
    "attention.sliding_window", "attention.sliding_window_pattern", "attention.value_length", "attn_logit_softcapping",
    "block_count", "context_length", "embedding_length", "expert_count", "expert_used_count", "expert_weights_norm",
    "final_logit_softcapping", "rope.dimension_count", "rope.freq_base", "rope.freq_base_swa", "rope.scale_linear",
    "rope.scaling.attn_factor", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.type",
    "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
))  # fmt: skip

_WITHOUT_EFFECT = frozenset((
    "attention.layer_norm_epsilon", "embedding_length_out", "expert_feed_forward_length", "feed_forward_length",
    "pooling_type", "rope.scaling.finetuned", "tensor_data_layout", "vocab_size",
))  # fmt: skip
"""Keys of other uses, and sizes that tensors say too."""

_OTHER_PARTS = ("vision.", "mm.", "audio.")
"""Beginnings of keys about parts that are not the decoder."""

_NEUTRAL = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.scale": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "expert_gating_func": (1,),
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "expert_shared_count": (0,),
    "expert_weights_scale": (0.0, 1.0),
    "interleave_moe_layer_step": (1,),
    "leading_dense_block_count": (0,),
    "logit_scale": (0.0, 1.0),
    "nextn_predict_layers": (0,),
    "residual_scale": (0.0, 1.0),
    "rope.scaling.alpha": (0.0, 1.0),
    "rope.scaling.yarn_attn_factor": (1.0,),
    "rope.scaling.yarn_ext_factor": (-1.0, 1.0),
    "rope.scaling.yarn_log_multiplier": (0.0,),
    "router_logit_softcapping": (0.0,),
    "swin_norm": (False,),
    "use_parallel_residual": (False,),
}
"""Values with which a key changes nothing."""


def check_keys(file: GgufFile, architecture: str) -> None:
    """Raise UnsupportedError for a key of an architecture that may change the arithmetic and is not read."""
    before = f"{architecture}."
    for key, value in file.metadata.items():
        own = key.removeprefix(before)
        if own == key or own in _READ or own in _WITHOUT_EFFECT or own.startswith(_OTHER_PARTS):
            continue
        if not _is_one_of(value, _NEUTRAL.get(own, ())):
            shown = f" {value}" if isinstance(value, bool | int | float) else ""
            what = f"'{file.path}': '{key}'{shown} is not supported"
            raise UnsupportedError(what, "give a model without it")


def _is_one_of(value: Any, neutral: tuple[float, ...]) -> bool:
    return isinstance(value, bool | int | float) and any(
        math.isclose(value, one, abs_tol=1e-12) for one in neutral
    )
