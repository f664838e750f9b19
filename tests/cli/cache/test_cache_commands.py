"""`graphc cache`: lists, deletes and checks models, kernels and the weights that models share."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import graphc
from graphc.cli import main
from support.layers import layer

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path))
    for rows in (4, 8):  # of a width that panels of any number of vectors divide
        graphc.compile(layer(rows, width=960), threads=1)
    return tmp_path / "compiled"


def facts_of(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    assert main(["cache", *words, "--json"]) == code
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def test_two_variants_share_their_weights(folder: Path, capsys: Capture) -> None:
    facts = facts_of(capsys, "ls")
    assert (len(facts["models"]), facts["weights"]) == (2, 1)
    assert {entry["shared_bytes"] for entry in facts["models"]} == {960 * 32 * 4}
    assert facts["weight_bytes"] == sum(x.stat().st_size for x in (folder / "weights").iterdir())
    assert main(["cache", "ls"]) == 0
    *entries, total = capsys.readouterr().out.splitlines()
    assert len(entries) == 2 and "0.1 MB shared" in entries[0]
    assert total.startswith("2 models, ") and "1 weights (0.1 MB)" in total


def test_gc_keeps_what_is_used(folder: Path, capsys: Capture) -> None:
    (weights,) = (folder / "weights").iterdir()
    unused = weights.with_name(f"{'0' * 64}.safetensors")
    recent = weights.with_name(f"{'1' * 64}.safetensors")
    for path in (unused, recent, weights):
        path.write_bytes(weights.read_bytes())
    os.utime(unused, (0, 0))
    os.utime(weights, (0, 0))
    facts = facts_of(capsys, "gc")
    assert facts["deleted"]["weights"] == 1 and facts["deleted"]["models"] == 0
    assert sorted((folder / "weights").iterdir()) == sorted([weights, recent])


def test_gc_deletes_old_entries(folder: Path, capsys: Capture) -> None:
    first, second = sorted(folder.glob("*.gcm"))
    os.utime(first, (1, 1))
    for kernel in folder.glob("*.kernel"):
        os.utime(kernel, (0, 0))
    weights = sum(x.stat().st_size for x in (folder / "weights").iterdir())
    limit = second.stat().st_size + weights
    facts = facts_of(capsys, "gc", "--max-bytes", str(limit))
    assert list(folder.glob("*.gcm")) == [second] and facts["weights"] == 1
    facts = facts_of(capsys, "gc", "--max-bytes", "0")
    assert facts["bytes"] == 0 and not list((folder / "weights").iterdir())


def test_gc_deletes_weights_with_the_last_model_that_uses_them(
    folder: Path, capsys: Capture
) -> None:
    facts = facts_of(capsys, "gc", "--max-bytes", "1000")
    assert facts["deleted"]["models"] == 2 and facts["deleted"]["weights"] == 1
    assert facts["bytes"] <= 1000


def test_verify_finds_and_deletes_damage(folder: Path, capsys: Capture) -> None:
    assert facts_of(capsys, "verify")["corrupt"] == {}
    (weights,) = (folder / "weights").iterdir()
    model, _ = folder.glob("*.gcm")
    kernel = next(folder.glob("*.kernel"))
    for path in (weights, model, kernel):
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    corrupt = facts_of(capsys, "verify", code=1)["corrupt"]
    assert {str(path) for path in (weights, model, kernel)} <= set(corrupt)
    for words, end in (((), "files; --delete deletes them; "), (("--delete",), "files, deleted; ")):
        assert main(["cache", "verify", *words]) == 1
        first, *_, last = capsys.readouterr().out.splitlines()
        assert first.startswith("corrupt: ") and end in last
    assert facts_of(capsys, "verify")["corrupt"] == {}


def test_corrupt_weights_are_written_anew(folder: Path) -> None:
    (weights,) = (folder / "weights").iterdir()
    right = weights.read_bytes()
    weights.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    for _ in range(2):
        graphc.compile(layer(4, width=960), threads=1)
        assert weights.read_bytes() == right


def test_a_bad_size_is_refused(folder: Path, capsys: Capture) -> None:
    assert main(["cache", "gc", "--max-bytes", "much"]) == 2
    assert "--max-bytes must be a size like 512M or 16G" in capsys.readouterr().err
