"""Rows of language models: what is timed, and what is compared. No times are judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.bench import decode, peers
from graphc.bench.decode import EXACT, LLAMA, ROUNDED, DecodeRow, decode_rows, geometric_mean
from graphc.bench.decode_genai import GENAI
from graphc.cli import main
from graphc.codegen.host import target_for
from support.gguf_files import TinyDecoder


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    decoder = TinyDecoder(
        "llama", layers=1, width=32, heads=2, kv_heads=1, hidden=32, kinds=("q8_0",)
    )
    return decoder.write(tmp_path_factory.mktemp("decode") / "tiny.gguf")[0]


class Planted:
    """An engine that takes a second, and remembers its calls."""

    calls: list[tuple[str, int]] = []

    def __init__(self, path: Path, threads: int) -> None:
        Planted.calls = []

    def prefill(self, tokens: Sequence[int]) -> float:
        self.calls.append(("prefill", len(tokens)))
        return 1.0

    def decode(self, tokens: Sequence[int]) -> float:
        self.calls.append(("decode", len(tokens)))
        return 1.0


def test_prompts_and_contexts_that_the_model_holds(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "LlamaCpp", Planted)
    steps: list[tuple[str, int, int]] = []
    rows = decode_rows(
        tiny, target_for("native"), 1, [LLAMA], 1, lambda *step: steps.append(step), (4, 9999), (0, 8, 510)
    )  # fmt: skip
    assert [row.name for row in rows] == ["prompt 4", "decode at 0", "decode at 8"]
    assert all(row.rates.keys() == {EXACT, ROUNDED, LLAMA} for row in rows)
    assert rows[0].rates[LLAMA] == 4.0 and rows[1].rates[LLAMA] == 1.0
    assert Planted.calls == [("prefill", 4)] * 2 + [("decode", 0)] * 2 + [("decode", 8)] * 2
    assert rows[0].roof == 0 < rows[1].roof
    assert steps[-1] == ("decode at 8", 3, 3)


def test_a_pause_follows_each_call(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Linux stops a process of real-time priority that never pauses."""
    pauses: list[float] = []
    monkeypatch.setattr(decode, "LlamaCpp", Planted)
    monkeypatch.setattr(decode.time, "sleep", pauses.append)
    decode_rows(tiny, target_for("native"), 1, [LLAMA], 2, lambda *step: None, (4,), ())
    assert len(pauses) == 3 * 3 and min(pauses) > 0, "three engines, a first round and two more"


def test_a_peer_that_has_a_folder_of_its_own(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "Genai", Planted)
    for folder, names in ((tiny.parent, {EXACT, ROUNDED, GENAI}), (None, {EXACT, ROUNDED})):
        (row,) = decode_rows(
            tiny, target_for("native"), 1, [GENAI], 1, lambda *step: None, (4,), (), folder
        )
        assert row.rates.keys() == names and row.ratio is None


def test_the_ratio_is_that_of_the_better_of_ours() -> None:
    rows = [
        DecodeRow("prompt 4", {EXACT: 8.0, ROUNDED: 16.0, LLAMA: 4.0, GENAI: 99.0}),
        DecodeRow("prompt 8", {EXACT: 9.0, ROUNDED: 3.0, LLAMA: 9.0}),
        DecodeRow("decode at 0", {EXACT: 1.0, ROUNDED: 2.0}),
    ]
    assert [row.ratio for row in rows] == [4.0, 1.0, None]
    assert geometric_mean(rows, "prompt") == pytest.approx(2.0)
    assert geometric_mean(rows, "decode") is None


def test_the_command_prints_a_table(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(tiny), "--threads", "1", "--rounds", "1", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        lines[0] == "tiny.gguf, 1 threads"
        and "decode at 0" in lines[-1]
        and "prompt 16" in lines[2]
    )
    assert main(["bench", str(tiny), "--against", "ort", "-q"]) == 2
    assert "must be llama.cpp or onnxruntime-genai, got 'ort'" in capsys.readouterr().err


def test_a_peer_that_is_not_installed(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(peers, "import_module", missing)
    with pytest.raises(UserError, match="pip install xllamacpp"):
        decode_rows(tiny, target_for("native"), 1, [LLAMA], 1, lambda *step: None)
