"""Folders of onnxruntime-genai: logits as ONNX Runtime computes them, texts, and settings that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.language_models import LanguageModel, load
from support.genai_folder import KV_HEADS, SIZE, genai_config, write_genai

TOKENS = [1, 5, 9, 3, 4, 7, 8, 2, 6, 11]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_genai(tmp_path_factory.mktemp("genai") / "model")


@pytest.fixture(scope="module")
def genai(folder: Path) -> LanguageModel:
    return load(folder, threads=1, context=40)


def test_logits_are_those_of_onnxruntime(folder: Path, genai: LanguageModel) -> None:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    empty = np.zeros((1, KV_HEADS, 0, SIZE), np.float32)
    feeds = {
        "input_ids": np.array([TOKENS]), "attention_mask": np.ones((1, len(TOKENS)), np.int64),
        "past_key_values.0.key": empty, "past_key_values.0.value": empty,
    }  # fmt: skip
    wanted = session.run(["logits"], feeds)[0][0]
    genai.session.truncate(0)
    found = [genai.session.feed(TOKENS[:6], every=True)]
    found += [genai.session.feed([token]) for token in TOKENS[6:]]
    np.testing.assert_allclose(np.concatenate(found), wanted, atol=1e-5)


def test_texts_are_generated(genai: LanguageModel) -> None:
    text = genai.generate("w1 w5 w9", 8)
    assert genai.usage.prompt + genai.usage.reused == 3 and text.startswith("w")
    assert genai.generate("w1 w5 w9", 8, lookup=4) == text
    assert genai.tokenizer.ends == {2}


def test_several_prompts_are_continued_one_after_another(genai: LanguageModel) -> None:
    prompts = ["w1 w5 w9", "w3", "w7 w8"]
    assert genai.batch_step is None
    assert genai.generate(prompts, 6) == [genai.generate(prompt, 6) for prompt in prompts]


def changed(folder: Path, path: Path, part: list[str], name: str, value: Any) -> Path:
    """A copy of the folder whose settings have another value."""
    settings = genai_config()
    inner = settings
    for key in part:
        inner = inner[key]
    inner[name] = value
    write_genai(path)
    (path / "genai_config.json").write_text(json.dumps(settings))
    return path


@pytest.mark.parametrize(
    ("part", "name", "value", "message"),
    [
        ([], "model", 3, "'model' must be an object, got 3"),
        (["model"], "vocab_size", "x", "'vocab_size' must be a positive integer, got 'x'"),
        (["model", "decoder"], "filename", "../model.onnx", "'filename' must be a name"),
        (["model", "decoder", "inputs"], "past_key_names", "past", "'past_key_names' must be a name"),
        (["model", "decoder", "inputs"], "past_key_names", "%d%s", "'past_key_names' must be a name"),
    ],
)  # fmt: skip
def test_settings_that_are_wrong(
    folder: Path, tmp_path: Path, part: list[str], name: str, value: Any, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        load(changed(folder, tmp_path / "x", part, name, value))


def test_another_decoder_is_refused(folder: Path, tmp_path: Path) -> None:
    path = changed(folder, tmp_path / "x", ["model", "decoder"], "head_size", 8)
    with pytest.raises(UnsupportedError, match="decoders with f32 caches of one length"):
        load(path)
    with pytest.raises(UserError, match="the model says the type of its caches"):
        load(folder, cache="f16")
