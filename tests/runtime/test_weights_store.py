"""Large constants in files that models and processes share: equal results, one copy, and other files refused."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.aligned_memory import SHARED_FROM
from graphc.base.errors import UserError
from graphc.runtime.artifact import Artifact
from graphc.runtime.executor import CompiledModel
from support.forgery import forge
from support.layers import layer, whole
from support.process import run_python

WIDTH = 256
X = whole(4, 32)


@pytest.fixture
def model() -> CompiledModel:
    return graphc.compile(layer(4, width=WIDTH * 4), threads=1, cache=False)


@pytest.fixture
def saved(model: CompiledModel, tmp_path: Path) -> Path:
    model.save(tmp_path / "m.gcm", weights=tmp_path / "store")
    return tmp_path / "m.gcm"


def files(saved: Path) -> list[Path]:
    return sorted((saved.parent / "store").iterdir())


def test_the_same_results_from_mapped_files(model: CompiledModel, saved: Path) -> None:
    loaded = graphc.load(saved)
    np.testing.assert_array_equal(loaded(X), model(X))
    np.testing.assert_array_equal(loaded.artifact.constants, model.artifact.constants)
    assert not loaded.artifact.constants.flags.writeable
    maps = Path("/proc/self/maps").read_text()
    assert all(f"{file}" in maps for file in files(saved))
    assert saved.stat().st_size < model.artifact.constants.nbytes


def test_files_are_safetensors_named_by_their_hash(saved: Path) -> None:
    for file in files(saved):
        data = file.read_bytes()
        assert file.stem == hashlib.sha256(data).hexdigest()
        (size,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + size])
        begin, end = header["weights"]["data_offsets"]
        assert (begin, 8 + size + end) == (0, len(data)) and (8 + size) % 4096 == 0
        assert header["__metadata__"]["format"] == "graphc" and end >= SHARED_FROM


def test_variants_share_equal_tensors(saved: Path) -> None:
    """Other batch sizes and numbers of threads pack the weights alike."""
    before = [file.stat().st_ino for file in files(saved)]
    store = saved.parent / "store"
    for rows, threads in ((8, 1), (16, 2)):
        other = graphc.compile(layer(rows, width=WIDTH * 4), threads=threads, cache=False)
        other.save(saved.with_name(f"{rows}.gcm"), weights=store)
    assert [file.stat().st_ino for file in files(saved)] == before


def test_an_artifact_and_its_weights_move_together(model: CompiledModel, saved: Path) -> None:
    folder = saved.parent / "elsewhere"
    folder.mkdir()
    (saved.parent / "store").rename(folder / "store")
    with pytest.raises(UserError, match=r"m\.gcm: there is no file .*; copy the folder of weights"):
        graphc.load(saved)
    moved = saved.rename(folder / "m.gcm")
    np.testing.assert_array_equal(graphc.load(moved)(X), model(X))
    loaded = graphc.load(moved)
    loaded.save(folder / "whole.gcm")
    np.testing.assert_array_equal(graphc.load(folder / "whole.gcm")(X), model(X))


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)


def swap(file: Path) -> None:
    """Another valid file under the name of this one."""
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    other = file.with_name("other")
    other.write_bytes(data)
    os.replace(other, file)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 4096)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize("damage", [flip, swap, truncate, empty, folder, pipe])
@pytest.mark.parametrize("loaded_before", [False, True])
def test_other_files_are_refused(
    damage: Callable[[Path], None], loaded_before: bool, saved: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Also after the right ones were loaded, when unchanged files are not read again."""
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path / "cache"))
    if loaded_before:
        graphc.load(saved)
    damage(files(saved)[0])
    with pytest.raises(UserError, match=r"^m\.gcm: ") as caught:
        graphc.load(saved)
    text = str(caught.value)
    assert files(saved)[0].name in text and "\n" not in text
    assert "does not have the SHA-256 of its name" in text or "cannot read" in text


def change(**values: object) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["shared"][0].update(values)


@pytest.mark.parametrize(
    "lie",
    [
        change(offset=-4096), change(offset=1 << 40), change(size=1 << 62), change(size=0),
        change(sha256="../../x"), change(sha256=7), change(offset="0"),
        lambda header: header.update(shared=[{}]), lambda header: header.update(shared=7),
        lambda header: header["shared"].append(header["shared"][0]),
        lambda header: header.update(store="a\0b"),
    ],
)  # fmt: skip
def test_forged_tables_are_refused(lie: Callable[[dict[str, Any]], None], saved: Path) -> None:
    forge(saved, lie)
    with pytest.raises(UserError, match=r"^m\.gcm: "):
        Artifact.load(saved)


SHARES = """
import gc, resource, sys
import numpy as np
import graphc

def private():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return sum(int(x.split()[1]) for x in lines if x.startswith("Private_"))

warm = graphc.load(sys.argv[2])  # the code of LLVM and of graphc
warm(np.zeros((4, 32), np.float32))
gc.collect()
before = private()
model = graphc.load(sys.argv[1])
model(np.zeros((4, 32), np.float32))
gc.collect()
print(private() - before - model.artifact.metadata.arena_bytes // 1024, flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="no smaps")
def test_processes_share_one_copy(tmp_path: Path) -> None:
    """Each of three has less than 2 MB of private memory for a model with 32 MB of weights."""
    wide = graphc.compile(layer(4, width=1 << 18), threads=1, cache=False)
    assert wide.artifact.constants.nbytes > 32 << 20
    wide.save(tmp_path / "wide.gcm", weights=tmp_path)
    graphc.compile(layer(4, width=8), threads=1, cache=False).save(tmp_path / "small.gcm")
    words = [sys.executable, "-c", SHARES, str(tmp_path / "wide.gcm"), str(tmp_path / "small.gcm")]
    pipe = subprocess.PIPE
    processes: list[Any] = []
    for _ in range(3):
        processes.append(subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True))
        grown = int(processes[-1].stdout.readline())
        # Pages of a file that one process maps count as its private ones: the others show what is shared.
        assert len(processes) == 1 or grown < 2048
    for process in processes:
        process.communicate("\n")


LOADS = """
import sys, graphc
graphc.load(sys.argv[1])
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4
before = resident()
model = graphc.load(sys.argv[2])
print(resident() - before)
"""


def test_loading_touches_no_page_of_the_weights(tmp_path: Path) -> None:
    wide = graphc.compile(layer(4, width=1 << 18), threads=1, cache=False)
    wide.save(tmp_path / "wide.gcm", weights=tmp_path)
    graphc.compile(layer(4, width=8), threads=1, cache=False).save(tmp_path / "small.gcm")
    done = run_python("-c", LOADS, str(tmp_path / "small.gcm"), str(tmp_path / "wide.gcm"))
    assert int(done.stdout) < 8192, done.stderr
