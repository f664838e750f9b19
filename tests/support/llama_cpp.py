"""llama.cpp, of the package `xllamacpp`, as a reference of tokenizers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest


class LlamaCppTokenizer:
    """The tokenizer of a GGUF file in llama.cpp, which answers to requests at a local address."""

    def __init__(self, path: Path) -> None:
        """Skip the test where the package is not installed."""
        package = pytest.importorskip("xllamacpp")
        parameters = package.CommonParams()
        parameters.model.path = str(path)
        parameters.verbosity, parameters.warmup = 0, False
        parameters.n_ctx, parameters.n_parallel = 64, 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        self._server = package.Server(parameters)
        self._url = f"{self._server.listening_address}/tokenize"

    def encode(self, text: str, control: bool) -> list[int]:
        """Return the tokens of a text, with the one that begins texts."""
        body = {"content": text, "add_special": True, "parse_special": control}
        data, kind = json.dumps(body).encode(), {"Content-Type": "application/json"}
        with urllib.request.urlopen(urllib.request.Request(self._url, data, kind)) as answer:
            found: list[int] = json.load(answer)["tokens"]
        return found
