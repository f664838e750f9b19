"""onnxruntime-genai as a peer: the folder that its model builder reads, and the one it writes. No times are judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.bench import peers
from graphc.bench.decode_genai import Genai, build, genai_folder, write_folder
from graphc.bench.decode_models import Shape
from graphc.language_models import load

SMALL = Shape("qwen3", 2, 64, 4, 2, 16, 128, 300, 1e6, has_head_norms=True)


def test_the_folder_has_the_shape(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    write_folder(tmp_path / "small", SMALL)
    logits = load(tmp_path / "small", threads=1, context=16).session.feed([4, 5, 6])
    assert logits.shape[-1] == 300 and logits.std() > 0


def test_only_weights_of_4_bits_without_experts_are_compared() -> None:
    for case in ("Qwen3 0.6B Q8_0", "Qwen3 0.6B F16", "Gemma 3 270M Q4_K_M", "Qwen3 MoE 1B Q4_K_M"):
        with genai_folder(case) as folder:
            assert folder is None


def test_a_folder_is_built_and_run(tmp_path: Path) -> None:
    for name in ("safetensors", "onnxruntime_genai", "onnx_ir", "torch", "transformers"):
        pytest.importorskip(name)
    write_folder(tmp_path / "small", SMALL)
    folder = build(tmp_path / "small", tmp_path / "made")
    engine = Genai(folder, 1)
    assert engine.prefill([4, 5, 6]) > 0 and engine.decode([]) > 0 and engine.decode([4, 5]) > 0
    assert load(folder, threads=1, context=16).session.feed([4, 5, 6]).std() > 0


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(peers, "import_module", missing)
    with pytest.raises(UserError, match="pip install onnxruntime-genai"):
        Genai(tmp_path, 1)
