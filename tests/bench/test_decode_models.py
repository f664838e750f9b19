"""Files of the suite decode: types of tensors, sizes as said, and models that run. No times are judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.bench import peers
from graphc.bench.decode_models import GEMMA, Shape, decode_cases, type_of, write_model
from graphc.frontend.gguf import read_gguf
from graphc.language_models import load

SMALL = Shape("qwen3", 2, 256, 4, 2, 64, 512, 300, 1e6, has_head_norms=True)
EXPERTS = replace(SMALL, architecture="qwen3moe", experts=4, experts_used=2)


def test_cases_by_name() -> None:
    assert decode_cases("")[0] == GEMMA and len(decode_cases("")) == 13
    assert decode_cases("llama 1b q") == ["Llama 1B Q4_0", "Llama 1B Q4_K_M", "Llama 1B Q8_0"]
    with pytest.raises(UserError, match="no case with 'zzz'"):
        decode_cases("zzz")


def test_a_mix_has_wider_types_in_some_layers() -> None:
    types = [type_of(f"blk.{i}.ffn_down", 2, "Q4_K_M", 16) for i in range(16)]
    assert "".join("6" if one == "Q6_K" else "4" for one in types) == "6644644644644666"
    assert type_of("blk.3.attn_q", 2, "Q4_K_M", 16) == "Q4_K"
    assert type_of("token_embd", 2, "Q4_K_M", 16) == "Q6_K"
    assert type_of("output_norm", 1, "Q8_0", 16) == "F32"


@pytest.mark.parametrize("shape", [SMALL, EXPERTS], ids=lambda one: str(one.architecture))
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_K_M", "F16"])
def test_files_are_read_and_run(kind: str, shape: Shape, tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    path = tmp_path / "small.gguf"
    write_model(path, shape, kind)
    file = read_gguf(path)
    assert {name: one.dims for name, one in file.tensors.items()} == {
        f"{name}.weight": dims for name, dims in shape.tensors()
    }
    (name,) = (one for one in file.tensors if one.startswith("blk.1.ffn_down"))
    values = file.tensors[name].values()
    assert 0 < np.abs(values).max() < 1 and values.std() > 1e-3
    matrices = [one.values() for one in file.tensors.values() if len(one.dims) > 1]
    assert len({one.tobytes() for one in matrices}) == len(matrices)  # graphc keeps equal ones once
    logits = load(path, threads=1, context=16).session.feed([4, 5, 6])
    assert np.isfinite(logits).all() and logits.std() > 0


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(peers, "import_module", missing)
    with pytest.raises(UserError, match="pip install gguf"):
        write_model(tmp_path / "x.gguf", SMALL, "Q8_0")
