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
def model(tiny_path: Path) -> LanguageModel:
    return load(tiny_path, threads=1, context=48)
