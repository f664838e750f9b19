"""Mixtures of experts: their weights stay packed, and a token reads those of the experts it goes through."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.frontend.gguf import read_gguf
from graphc.language_models import LanguageModel, load
from support.gguf_files import TinyDecoder

TINY = TinyDecoder("qwen3moe", experts=6, width=256, hidden=320, vocabulary=270, kinds=("q4_0",))


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TINY.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")[0]


@pytest.fixture(scope="module")
def exact(file: Path) -> LanguageModel:
    return load(file, threads=1, context=64)


def test_weights_stay_packed(file: Path, exact: LanguageModel) -> None:
    """Experts are nine of ten bytes of the file, and would be seven times as large in f32."""
    tensors = read_gguf(file).tensors
    read = {name: one.raw.nbytes for name, one in tensors.items() if name != "token_embd.weight"}
    experts = sum(size for name, size in read.items() if "_exps" in name)
    assert experts > 0.9 * sum(read.values())
    assert exact.weight_bytes < 1.06 * sum(read.values())


def test_a_token_reads_two_of_six_experts(exact: LanguageModel) -> None:
    per_expert = 3 * 320 * 256 * 18 // 32
    assert exact.weight_bytes - exact.read_bytes == TINY.layers * 4 * per_expert


def test_rounded_activations_and_threads(file: Path, exact: LanguageModel) -> None:
    """q8 is near exact, on one thread and two; a prompt of many rows per expert, then single tokens."""
    prompt = np.random.default_rng(2).integers(3, TINY.vocabulary, 40).tolist()

    def logits(model: LanguageModel) -> np.ndarray:
        model.session.truncate(0)
        parts = prompt[:33], *([one] for one in prompt[33:])
        return np.concatenate([model.session.feed(part, every=True) for part in parts])

    wanted = logits(exact)
    np.testing.assert_array_equal(logits(load(file, threads=2, context=64)), wanted)
    rounded = [logits(load(file, threads=count, context=64, activations="q8")) for count in (1, 2)]
    np.testing.assert_array_equal(*rounded)
    # The router may take another expert for a row where two are nearly equal: most rows, not all, are near.
    apart = np.abs(rounded[0] - wanted).max(axis=1) / np.abs(wanted).max()
    assert 0 < np.median(apart) < 0.05
