"""GGUF files: what is written is read, and corrupt files are refused with a sentence."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend.gguf import read_gguf
from support.gguf_files import Array, Blocks, TinyDecoder, blocks, write_gguf

METADATA: dict[str, Any] = {
    "a.text": "déjà vu", "a.number": 7, "a.float": 0.5, "a.flag": True, "a.list": ["x", "y"], "a.empty": [],
    "a.nested": [["x"], ["y", "z"]], "a.array": np.arange(5, dtype=np.int32),
}  # fmt: skip


def test_metadata_and_tensors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tensors: dict[str, Array | Blocks] = {
        "floats": rng.standard_normal((3, 5)).astype(np.float32),
        "halves": rng.standard_normal(7).astype(np.float16),
        "integers": np.arange(6, dtype=np.int32).reshape(1, 2, 3),
        "packed": blocks("q5_k", 4, 512, rng),
    }
    file = read_gguf(write_gguf(tmp_path / "m.gguf", METADATA, tensors))
    assert file.text("a.text") == "déjà vu" and file.metadata["a.list"] == [b"x", b"y"]
    assert file.integer("a.number") == 7 and file.number("a.float") == 0.5
    assert file.metadata["a.flag"] is True and file.metadata["a.empty"] == []
    assert file.metadata["a.nested"] == [[b"x"], [b"y", b"z"]]
    np.testing.assert_array_equal(file.metadata["a.array"], np.arange(5))
    for name, tensor in tensors.items():
        wanted = tensor.values if isinstance(tensor, Blocks) else tensor
        np.testing.assert_array_equal(file.tensors[name].values(), wanted)
    rows = np.array([3, 0])
    packed = file.tensors["packed"]
    np.testing.assert_array_equal(packed.values(rows), packed.values()[rows])


def test_a_split_model_is_one(tmp_path: Path) -> None:
    one = np.ones((2, 3), np.float32)
    split = {"split.count": 2, "split.tensors.count": 2}
    first = write_gguf(tmp_path / "m-00001-of-00002.gguf", split | {"a.x": 1}, {"one": one})
    second = tmp_path / "m-00002-of-00002.gguf"
    with pytest.raises(UserError, match="there is no file"):
        read_gguf(first)
    write_gguf(second, split, {"two": 2 * one})
    file = read_gguf(first)
    assert set(file.tensors) == {"one", "two"} and file.integer("a.x") == 1
    with pytest.raises(UserError, match="first file of a split model must be given"):
        read_gguf(second)
    write_gguf(second, split, {"one": one})
    with pytest.raises(UserError, match="'one' twice"):
        read_gguf(first)


@pytest.mark.parametrize(
    ("own", "rule"),
    [
        (({"split.no": 1}, {"split.no": 0}), "'split.no' must be 0, as its name says, got 1"),
        (({"split.no": 0}, {"split.no": 0}), "'split.no' must be 1, as its name says, got 0"),
        (({}, {"split.count": 3}), "'split.count' must be 2, as its name says, got 3"),
        (({}, {"split.no": "x"}), "'split.no' must be a number"),
    ],
)
def test_files_of_a_split_model_in_another_order(
    own: tuple[dict[str, Any], ...], rule: str, tmp_path: Path
) -> None:
    for i, more in enumerate(own):
        tensor = {str(i): np.ones(3, np.float32)}
        write_gguf(tmp_path / f"m-0000{i + 1}-of-00002.gguf", {"split.count": 2} | more, tensor)
    with pytest.raises(UserError, match=rule):
        read_gguf(tmp_path / "m-00001-of-00002.gguf")


def header(version: int = 3, tensors: int = 0, pairs: int = 0) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", version, tensors, pairs)


def entry(name: bytes, dims: tuple[int, ...], code: int, offset: int = 0) -> bytes:
    dim_text = struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
    return struct.pack("<Q", len(name)) + name + dim_text + struct.pack("<IQ", code, offset)


LONG = 1 << 62
REFUSED = {
    "no magic": (b"GGML" + header()[4:], "must begin with 'GGUF'"),
    "cut header": (header()[:10], "must be whole"),
    "giant count of tensors": (header(tensors=LONG), "must be whole"),
    "giant count of pairs": (header(pairs=LONG), "must be whole"),
    "giant string": (header(pairs=1) + struct.pack("<Q", LONG), "must be whole"),
    "giant array": (header(pairs=1) + struct.pack("<Q1sIIQ", 1, b"k", 9, 8, LONG), "must be whole"),
    "unknown kind": (header(pairs=1) + struct.pack("<Q1sI", 1, b"k", 13), "kinds 0 to 12"),
    "deep arrays": (header(pairs=1) + struct.pack("<Q1sI", 1, b"k", 9) + struct.pack("<IQ", 9, 1) * 50, "deep"),
    "key twice": (header(pairs=2) + struct.pack("<Q1sIB", 1, b"k", 0, 1) * 2, "'k' twice"),
    "tensor twice": (header(tensors=2) + entry(b"t", (1,), 0) * 2 + bytes(64), "'t' twice"),
    "long name": (header(tensors=1) + entry(b"t" * 64, (1,), 0) + bytes(64), "at most 63 bytes"),
    "five dims": (header(tensors=1) + entry(b"t", (1,) * 5, 0) + bytes(64), "at most 4 dims"),
    "outside": (header(tensors=1) + entry(b"t", (99,), 0) + bytes(64), "must hold all 396 bytes"),
    "giant dims": (header(tensors=1) + entry(b"t", (LONG, LONG), 0) + bytes(64), "must hold all"),
    "giant offset": (header(tensors=1) + entry(b"t", (1,), 0, LONG) + bytes(64), "must hold all"),
    "odd offset": (header(tensors=1) + entry(b"t", (1,), 0, 1) + bytes(64), "multiple of 32"),
    "no elements": (
        header(tensors=1) + entry(b"t", (0, LONG), 0) + bytes(64), "dims of 't' must be at least 1",
    ),
    "half a block": (header(tensors=1) + entry(b"t", (33,), 2) + bytes(64), "multiple of 32 long"),
    "alignment": (
        header(pairs=1) + struct.pack("<Q17sII", 17, b"general.alignment", 4, 3), "power of two",
    ),
    "zero alignment": (
        header(pairs=1) + struct.pack("<Q17sII", 17, b"general.alignment", 4, 0), "power of two",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_corrupt_files_are_refused(name: str, tmp_path: Path) -> None:
    data, message = REFUSED[name]
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(UserError, match=message):
        read_gguf(tmp_path / "m.gguf")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (header(version=0x03000000), "big-endian"),
        (header(version=1), "version 1"),
        (header(tensors=1) + entry(b"t", (256,), 19) + bytes(99), "type IQ1_S"),
        (header(tensors=1) + entry(b"t", (256,), 77) + bytes(99), "type of number 77"),
    ],
)
def test_what_is_valid_but_not_read(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(UnsupportedError, match=message):
        read_gguf(tmp_path / "m.gguf")


def test_every_cut_and_many_changes_are_refused_or_read(tmp_path: Path) -> None:
    """Never another error, whatever the bytes."""
    path, _ = TinyDecoder("llama", layers=1, width=32, hidden=32, key_size=8, vocabulary=261).write(
        tmp_path / "m.gguf"
    )
    data, rng = path.read_bytes(), np.random.default_rng(0)
    start = data.index(b"token_embd")
    cuts = rng.integers(0, start, 60).tolist()
    changed = [bytearray(data) for _ in range(150)]
    for array in changed:
        for at in rng.integers(0, 1500 if rng.random() < 0.5 else start + 500, 3).tolist():
            array[at] = int(rng.integers(256))
    for one in (*(data[:cut] for cut in cuts), *map(bytes, changed)):
        path.write_bytes(one)
        try:
            read_gguf(path)
        except (UserError, UnsupportedError):
            continue
