"""Metadata and tensors of decoders: what changes the arithmetic is read or refused, and sizes are bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import GraphcError, UnsupportedError, UserError
from graphc.frontend.decoder.config import DecoderConfig, yarn_divisors
from graphc.frontend.gguf import decoder_config, read_gguf
from graphc.frontend.gguf.importer import load_gguf
from graphc.language_models import load
from support.gguf_files import TinyDecoder, write_gguf

TINY = TinyDecoder("llama", layers=1, width=32, heads=2, kv_heads=1, hidden=32, kinds=("q8_0",))
FREQUENCIES = 10_000.0 ** (-np.arange(8) / 8)
NAN, INF = float("nan"), float("inf")


def config(
    path: Path, more: dict[str, Any], tensors: dict[str, Any] | None = None
) -> DecoderConfig:
    """The configuration of a decoder whose graph can be built."""
    metadata = TINY.metadata() | {f"llama.{key}": value for key, value in more.items()}
    write_gguf(path / "x.gguf", metadata, dict(TINY.tensors()) | (tensors or {}))
    load_gguf(path / "x.gguf", {})
    return decoder_config(read_gguf(path / "x.gguf"), 512)


@pytest.mark.parametrize(
    ("more", "divisors"),
    [
        ({"scaling.factor": 4.0}, 4.0),
        ({"scale_linear": 4.0}, 4.0),
        ({"scaling.type": "linear", "scaling.factor": 0.0}, 1.0),
        ({"scaling.type": "none", "scaling.factor": 4.0}, 1.0),
        (
            {
                "scaling.type": "yarn", "scaling.factor": 4.0, "scaling.original_context_length": 64,
                "scaling.yarn_beta_fast": 8.0, "scaling.yarn_beta_slow": 2.0,
            },
            yarn_divisors(16, 10_000.0, 4.0, 64, 8.0, 2.0),
        ),
    ],
)  # fmt: skip
def test_scaling_and_factors_of_frequencies_are_both_applied(
    more: dict[str, Any], divisors: Any, tmp_path: Path
) -> None:
    rope = {f"rope.{key}": value for key, value in more.items()}
    plain = config(tmp_path, rope).rotary.frequencies
    np.testing.assert_allclose(plain, FREQUENCIES / divisors, rtol=1e-6)
    factors = np.linspace(1, 3, 8, dtype=np.float32)
    both = config(tmp_path, rope, {"rope_freqs.weight": factors}).rotary.frequencies
    np.testing.assert_allclose(both, FREQUENCIES / divisors / factors, rtol=1e-6)


CHANGES: dict[str, Any] = {
    "attention.causal": False, "attention.clamp_kqv": 8.0, "attention.scale": 0.5, "embedding_scale": 12.0,
    "expert_gating_func": 2, "expert_shared_count": 1, "logit_scale": 2.0, "residual_scale": 0.2,
    "rope.scaling.yarn_log_multiplier": 0.1, "rope.global.freq_base": 1e6, "some_key_of_tomorrow": "x",
    "use_parallel_residual": True,
}  # fmt: skip


@pytest.mark.parametrize("key", CHANGES)
def test_keys_that_change_the_arithmetic_are_refused(key: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"'llama.{key}'.* is not supported"):
        config(tmp_path, {key: CHANGES[key]})


def test_keys_that_change_nothing_are_read(tmp_path: Path) -> None:
    neutral = {
        "attention.causal": True, "logit_scale": 1.0, "residual_scale": 1.0, "expert_shared_count": 0,
        "feed_forward_length": 32, "vision.block_count": 3, "rope.scaling.finetuned": True,
    }  # fmt: skip
    assert config(tmp_path, neutral) == config(tmp_path, {})


@pytest.mark.parametrize(
    "name",
    [
        "blk.0.attn_sinks.weight", "blk.0.ffn_up_shexp.weight", "blk.0.attn_norm.bias", "blk.0.attn_q.scale",
        "blk.1.attn_norm.weight", "output_norm.bias",
    ],
)  # fmt: skip
def test_tensors_that_no_decoder_reads_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"the tensors {name} are not supported"):
        config(tmp_path, {}, {name: np.ones(32, np.float32)})


def test_tensors_of_other_parts_are_not_read(tmp_path: Path) -> None:
    config(tmp_path, {}, {"v.patch_embd.weight": np.ones(4, np.float32)})


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("block_count", 1 << 30, "at most 12, the number of tensors"),
        ("attention.key_length", (1 << 31) - 1, "at most 300, the largest size of a tensor"),
        ("attention.head_count", 1 << 20, "at most 300, the largest size of a tensor"),
        ("attention.layer_norm_rms_epsilon", NAN, "at least 0"),
        ("attention.layer_norm_rms_epsilon", -1.0, "at least 0"),
        ("attn_logit_softcapping", INF, "finite"),
        ("rope.freq_base", 0.0, "positive"),
        ("rope.freq_base", NAN, "positive"),
        ("rope.scaling.factor", -1.0, "at least 0"),
        ("rope.scaling.attn_factor", NAN, "finite"),
    ],
)
def test_numbers_outside_of_their_range(key: str, value: float, rule: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"'llama.{key}' must be {rule}, got"):
        config(tmp_path, {key: value})


def test_weights_of_experts_that_are_not_normalized(tmp_path: Path) -> None:
    for value in (True, False):
        assert config(tmp_path, {"expert_weights_norm": value}).joins_to_one is value
    with pytest.raises(
        UserError, match=r"'llama.expert_weights_norm' must be true or false, got 1"
    ):
        config(tmp_path, {"expert_weights_norm": 1})


def test_factors_that_are_no_divisors(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'rope_freqs.weight' must be positive, got 0.0"):
        config(tmp_path, {}, {"rope_freqs.weight": np.zeros(8, np.float32)})


MIXTURE = TinyDecoder(
    "llama", 1, width=32, heads=2, kv_heads=1, hidden=64, kinds=("q8_0",), experts=4
)


@pytest.mark.parametrize(
    ("name", "dims", "rule"),
    [
        ("up_exps", (3, 64, 32), r"must be \[4, 64, 32\], got \[3, 64, 32\]"),
        ("gate_exps", (4, 1, 32), r"must be \[4, 64, 32\], got \[4, 1, 32\]"),
        ("gate_exps", (256, 32), r"must be \[4, 64, 32\], got \[256, 32\]"),
        ("down_exps", (5, 32, 64), r"ffn_gate_exps.weight' must be \[5, 64, 32\]"),
        ("down_exps", (4, 1, 64), r"must be \[experts, 32, hidden size\], got \[4, 1, 64\]"),
        ("down_exps", (256, 32), r"must be \[experts, 32, hidden size\], got \[256, 32\]"),
        ("gate_inp", (3, 32), r"expert_count' must be the rows of .*\[3, 32\], got 4"),
        ("gate_inp", (), r"expert_count' must be the rows of .*\[\], got 4"),
    ],
)
def test_experts_whose_tensors_disagree(
    name: str, dims: tuple[int, ...], rule: str, tmp_path: Path
) -> None:
    """A matrix of a row would be broadcast, and rows of an expert without a matrix be 0."""
    tensors = dict(MIXTURE.tensors()) | {f"blk.0.ffn_{name}.weight": np.zeros(dims, np.float32)}
    with pytest.raises(UserError, match=rule):
        load(write_gguf(tmp_path / "x.gguf", MIXTURE.metadata(), tensors), context=32)


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"expert_count": 3}, "expert_count' must be the rows of .*, got 3"),
        ({"expert_count": 1 << 30}, "expert_count' must be the rows of .*, got 1073741824"),
        ({"expert_count": 0}, "expert_count' must be the rows of .*, got 0"),
        ({"expert_used_count": 0}, r"expert_used_count' must be in \[1, 4\], got 0"),
        ({"expert_used_count": 5}, r"expert_used_count' must be in \[1, 4\], got 5"),
    ],
)
def test_numbers_of_experts(more: dict[str, int], rule: str, tmp_path: Path) -> None:
    metadata = MIXTURE.metadata() | {f"llama.{key}": value for key, value in more.items()}
    with pytest.raises(UserError, match=rule):
        load(write_gguf(tmp_path / "x.gguf", metadata, MIXTURE.tensors()), context=32)


def test_changed_numbers_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    """Every number of the metadata at its extremes."""
    yarn = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 64,
    }
    keys = [key.removeprefix("llama.") for key in TINY.metadata() if key.startswith("llama.")]
    for key in {*keys, *yarn, "rope.scaling.yarn_beta_fast", "rope.dimension_count"} - {
        "rope.scaling.type"
    }:
        for value in (
            0,
            1,
            2,
            3,
            (1 << 31) - 1,
            (1 << 32) - 1,
            0.0,
            1.0,
            -1.0,
            1e-38,
            3e38,
            NAN,
            INF,
            "x",
            [1, 1],
        ):
            try:
                found = config(tmp_path, yarn | {key: value})
            except GraphcError:
                continue
            assert np.isfinite(found.rotary.frequencies).all(), (key, value)
