"""Artifacts on disk: what is saved comes back, and every corrupt file gives one sentence."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphc.base.dtypes import BF16, BOOL
from graphc.base.errors import UserError
from graphc.runtime.artifact import Artifact
from graphc.runtime.container import MAGIC
from graphc.runtime.executor import CompiledModel
from graphc.runtime.metadata import TensorSpec
from support.files import write_anew
from support.forgery import PRELUDE, forge
from support.native import add_artifact
from support.process import run_python


def saved(tmp_path: Path) -> Path:
    path = tmp_path / "m.gcm"
    add_artifact().save(path)
    return path


def failure(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        Artifact.load(path)
    return str(caught.value)


def test_round_trip(tmp_path: Path) -> None:
    artifact = replace(
        add_artifact(),
        metadata=replace(
            add_artifact().metadata,
            inputs=(TensorSpec("x.1", BF16, ()), TensorSpec("mask", BOOL, (0, 3))),
            cpu_features=("sse2",),
            threads=2,
            stats={"ops": 3, "nested": {"a": [1, 2.5, None, True, "µ"]}},
        ),
    )
    artifact.save(tmp_path / "m.gcm")
    back = Artifact.load(tmp_path / "m.gcm")
    assert back.metadata == artifact.metadata
    assert np.array_equal(back.constants, artifact.constants)
    assert back.object_code == artifact.object_code
    assert back.support_code == artifact.support_code
    assert back.origin == "m.gcm"


@pytest.mark.parametrize(("size", "alignment"), [(0, 64), (65, 64), (5 << 20, 2 << 20)])
def test_constants_on_huge_pages_are_a_copy(size: int, alignment: int) -> None:
    artifact = replace(add_artifact(), constants=np.arange(size, dtype=np.uint32).astype(np.uint8))
    copied = artifact.on_huge_pages().constants
    assert np.array_equal(copied, artifact.constants) and not copied.flags.writeable
    assert copied.ctypes.data % alignment == 0
    assert not np.shares_memory(copied, artifact.constants)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 4096, 100_003])
def test_constants_of_any_size_come_back_aligned_and_mapped(tmp_path: Path, size: int) -> None:
    values = np.arange(size, dtype=np.uint32).astype(np.uint8)
    replace(add_artifact(), constants=values).save(tmp_path / "m.gcm")
    own = Artifact.load(tmp_path / "m.gcm").constants
    back = Artifact.load(tmp_path / "m.gcm", mapped=True).constants
    assert np.array_equal(back, values) and np.array_equal(own, values)
    assert back.ctypes.data % 64 == 0 and own.ctypes.data % 64 == 0
    assert not back.flags.writeable
    if size:
        lines = Path("/proc/self/maps").read_text().splitlines()
        spans = [line.split() for line in lines if line.endswith("m.gcm")]
        ranges = [tuple(int(x, 16) for x in words[0].split("-")) for words in spans]
        assert any(low <= back.ctypes.data < high for low, high in ranges)


def test_misaligned_constants_are_copied_once_made_into_an_artifact() -> None:
    raw = np.arange(200, dtype=np.uint8)
    odd = raw[1 if raw.ctypes.data % 64 == 0 else 0 :]
    artifact = replace(add_artifact(), constants=odd[: len(odd) // 4 * 4].view(np.uint8))
    assert artifact.constants.ctypes.data % 64 == 0
    assert np.array_equal(artifact.constants, odd[: len(odd) // 4 * 4])


def test_a_loaded_model_runs(tmp_path: Path) -> None:
    model = CompiledModel(Artifact.load(saved(tmp_path)))
    x = np.arange(104, dtype=np.float32).reshape(8, 13)
    assert np.array_equal(model(x, x), 4 * x)


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    first = saved(tmp_path).read_bytes()
    Artifact.load(tmp_path / "m.gcm").save(tmp_path / "again.gcm")
    assert (tmp_path / "again.gcm").read_bytes() == first


def test_saving_over_the_file_a_model_is_mapped_from(tmp_path: Path) -> None:
    path = saved(tmp_path)
    loaded = Artifact.load(path, mapped=True)
    before = loaded.constants.copy()
    replace(add_artifact(), constants=np.zeros(999, np.uint8)).save(path)
    assert np.array_equal(loaded.constants, before)
    assert Artifact.load(path).constants.size == 999


def test_a_file_may_be_truncated_once_its_model_is_loaded(tmp_path: Path) -> None:
    """Reading a page of a mapped file that is no longer there ends the process."""
    path = tmp_path / "m.gcm"
    values = np.arange(1 << 20, dtype=np.uint32).astype(np.uint8)
    replace(add_artifact(), constants=values).save(path)
    done = run_python(
        "-c",
        "import sys\n"
        "from graphc.runtime.artifact import Artifact\n"
        "artifact = Artifact.load(sys.argv[1])\n"
        "open(sys.argv[1], 'r+b').truncate(0)\n"
        "print(int(artifact.constants.sum()))\n",
        str(path),
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == int(values.sum())


def test_every_truncation_is_found(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    lengths = [*range(130), *range(130, len(data), 997), len(data) - 1]
    for length in lengths:
        write_anew(path, data[:length])
        message = failure(path)
        if length < 64:
            assert (
                message == "m.gcm: is not a compiled model (.gcm); `graphc compile -o` writes one"
            )
        else:
            assert message == (
                f"m.gcm: is truncated or corrupt: it should have {len(data)} bytes, "
                f"but has {length}; compile the model again"
            )


def test_a_tail_is_found(tmp_path: Path) -> None:
    path = saved(tmp_path)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\0")
    assert failure(path) == (
        f"m.gcm: is truncated or corrupt: it should have {size} bytes, but has {size + 1}; "
        "compile the model again"
    )


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_is_found(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "m.gcm"
    if not path.exists():
        saved(tmp_path)
    good = path.read_bytes()
    broken = bytearray(good)
    for at in data.draw(
        st.lists(st.integers(0, len(good) - 1), min_size=1, max_size=4, unique=True)
    ):
        broken[at] ^= data.draw(st.integers(1, 255))
    flipped = write_anew(tmp_path / "flipped.gcm", broken)
    assert failure(flipped).startswith("flipped.gcm: ")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=st.binary(max_size=400), head=st.sampled_from([b"", MAGIC]))
def test_garbage_is_refused(tmp_path: Path, garbage: bytes, head: bytes) -> None:
    path = write_anew(tmp_path / "g.gcm", head + garbage)
    assert failure(path).startswith("g.gcm: ")


@pytest.mark.parametrize("name", ["constants", "object", "support"])
def test_a_corrupt_section_is_named(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path)
    data = bytearray(path.read_bytes())
    size = PRELUDE.unpack(data[:64])[3]
    table = json.loads(data[64 : 64 + size])["sections"]
    offset = next(s["offset"] for s in table if s["name"] == name)
    data[offset] ^= 1
    path.write_bytes(data)
    assert failure(path) == (
        f"m.gcm: section '{name}' is corrupt: its SHA-256 does not match; compile the model again"
    )


def test_a_corrupt_header_is_named(tmp_path: Path) -> None:
    path = saved(tmp_path)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert failure(path) == (
        "m.gcm: section 'header' is corrupt: its SHA-256 does not match; compile the model again"
    )


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (
            0,
            "is not a compiled model (.gcm); `graphc compile -o` writes one",
        ),
        (8, "has artifact format 77, this graphc reads 1; compile the model again"),
        (12, "was made for ABI 77, this graphc has 7; compile the model again"),
        (23, "header of {} bytes does not fit; compile the model again"),
    ],
)
def test_prelude_lies(tmp_path: Path, at: int, message: str) -> None:
    path = saved(tmp_path)
    data = bytearray(path.read_bytes())
    data[at] = 77
    path.write_bytes(data)
    assert failure(path) == "m.gcm: " + message.format(PRELUDE.unpack(data[:64])[3])


def _set(*keys: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(header: dict[str, Any]) -> None:
        entry: Any = header
        for key in keys[:-1]:
            entry = entry[key]
        entry[keys[-1]] = to

    return change


def _drop(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda header: header.__delitem__(key)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_drop("model"), "header must have the key 'model'"),
        (_set("model", to=3), "header 'model' must be a str, got 3"),
        (_set("inputs", to={}), "header 'inputs' must be a list, got {}"),
        (_set("inputs", 0, to=5), "header inputs[0] must be a JSON object, got int"),
        (
            _set("inputs", 1, "dtype", to="f31"),
            "header inputs[1]: dtype 'f31' is not known; known are f64, f32, f16, bf16, s8, s16, "
            "s32, s64, u8, u16, u32, u64, bool, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu, "
            "f4e2m1fn, s4, u4, s2, u2",
        ),
        (
            _set("inputs", 0, "shape", to=[-1]),
            f"header inputs[0] 'shape' must be at most 64 sizes from 0 to {1 << 47}, got [-1]",
        ),
        (
            _set("inputs", 0, "shape", to=[1 << 40, 1 << 40]),
            f"header inputs[0]: a tensor must have at most {1 << 47} bytes, got f32[{1 << 40},{1 << 40}]",
        ),
        (_set("inputs", 1, "name", to="a"), "header inputs: names must differ, got a, a"),
        (
            _set("arena_bytes", to=1 << 60),
            f"header 'arena_bytes' must be from 0 to {1 << 47}, got {1 << 60}",
        ),
        (_set("arena_bytes", to=True), "header 'arena_bytes' must be a int, got True"),
        (
            _set("cpu_features", to=[1]),
            "header 'cpu_features' must be a list of strings, got [1]",
        ),
        (_set("stats", to=None), "header 'stats' must be a dict, got None"),
        (_set("sections", to=3), None),
        (_set("sections", 0, to=3), "an entry of the section table is malformed; compile the model again"),
        (
            _set("sections", 0, "size", to="1"),
            "an entry of the section table is malformed; compile the model again",
        ),
        (
            _set("sections", 1, "name", to="constants"),
            "section names must differ, got constants, constants, support, graph; compile the model again",
        ),
        (
            _set("sections", 1, "name", to="code"),
            "must have the sections constants, object, support, got constants, code, support, graph; "
            "compile the model again",
        ),
    ],
)  # fmt: skip
def test_header_lies(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str | None
) -> None:
    path = saved(tmp_path)
    if message is None:
        forge_text(path, b'{"sections": 3}')
        message = "header lacks the section table; compile the model again"
    else:
        forge(path, change)
    assert failure(path) == "m.gcm: " + message


def forge_text(path: Path, text: bytes) -> None:
    """Replace the whole file by a header."""
    data = path.read_bytes()
    magic, version, abi = PRELUDE.unpack(data[:64])[:3]
    path.write_bytes(
        PRELUDE.pack(magic, version, abi, len(text), 64 + len(text), hashlib.sha256(text).digest())
        + text
    )


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[" * 100_000, b"\xff\xfe", b"9" * 10_000, b"null", b"[]", b'{"sections":{}}']
)  # fmt: skip
def test_header_that_is_no_json_object(tmp_path: Path, text: bytes) -> None:
    path = saved(tmp_path)
    forge_text(path, text)
    message = failure(path)
    assert message.startswith(
        ("m.gcm: header is not valid JSON (", "m.gcm: header lacks the section table;")
    )


def test_header_without_sections(tmp_path: Path) -> None:
    path = saved(tmp_path)
    forge_text(path, b'{"sections": []}')
    assert failure(path) == (
        "m.gcm: must have the sections constants, object, support, got none; compile the model again"
    )


@pytest.mark.parametrize(
    ("offset", "size", "message"),
    [
        (0, 1 << 62, r"section 'object' \(\d+ bytes at \d+\) lies outside the file of \d+ bytes"),
        (1 << 62, 0, r"section 'object' \(\d+ bytes at \d+\) lies outside the file of \d+ bytes"),
        (-(1 << 62), 0, r"section 'object' \(\d+ bytes at -\d+\) lies outside the file of \d+ bytes"),
        (0, -(1 << 62), r"section 'object' \(-\d+ bytes at \d+\) lies outside the file of \d+ bytes"),
        (-64, 0, r"sections 'constants' and 'object' overlap"),
        (8, 0, r"section 'object' is not aligned"),
        (0, 64, r"sections 'object' and 'support' overlap"),
        (0, -64, r"bytes \d+ to \d+ belong to no section and are not padding"),
    ],
)  # fmt: skip
def test_section_table_lies(tmp_path: Path, offset: int, size: int, message: str) -> None:
    path = saved(tmp_path)

    def change(header: dict[str, Any]) -> None:
        section = header["sections"][1]
        section["offset"] += offset
        section["size"] += size

    forge(path, change)
    with pytest.raises(UserError, match=f"^m.gcm: {message}; compile the model again$"):
        Artifact.load(path)


def test_no_such_file(tmp_path: Path) -> None:
    path = tmp_path / "none.gcm"
    assert failure(path) == f"there is no file '{path}'; check its name and its folder"


def test_a_folder_is_no_artifact(tmp_path: Path) -> None:
    assert failure(tmp_path) == f"cannot read '{tmp_path}' (Is a directory); give a file in it"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_pipes_and_files_shorter_than_their_size_are_no_artifacts(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    assert failure(pipe) == f"{pipe}: is not a regular file; copy its contents into one"
    with mock.patch("graphc.runtime.container.os.fstat", return_value=mock.Mock(st_size=4096)):
        (short := tmp_path / "short").write_bytes(b"of the system")
        assert (
            failure(short)
            == "short: is not a compiled model (.gcm); `graphc compile -o` writes one"
        )


@pytest.mark.parametrize(
    ("name", "why"),
    [("no/m.gcm", "No such file or directory"), ("m" * 300, "File name too long")],
)
def test_saving_where_the_system_refuses(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(UserError) as caught:
        add_artifact().save(tmp_path / name)
    assert str(caught.value).startswith(f"cannot write '{tmp_path / name}' ({why}); ")


def test_saving_onto_a_folder_or_device(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/null")):
        with pytest.raises(UserError) as caught:
            add_artifact().save(path)
        told = f"{path}: is not a regular file; choose another name for the artifact"
        assert str(caught.value) == told


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, full)
    with pytest.raises(UserError) as caught:
        replace(add_artifact(), constants=np.zeros(9, np.uint8)).save(path)
    assert str(caught.value).startswith(f"cannot write '{path}' (No space left on device); ")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m.gcm"]


def test_an_interrupted_save_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        add_artifact().save(tmp_path / "m.gcm")
    assert os.listdir(tmp_path) == []


def test_a_killed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = saved(tmp_path)
    before = path.read_bytes()
    program = (
        "import os, signal, sys\n"
        "from dataclasses import replace\n"
        "from graphc.runtime.artifact import Artifact\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "a = Artifact.load(sys.argv[1])\n"
        "replace(a, object_code=b'').save(sys.argv[1])\n"
    )
    assert run_python("-c", program, str(path)).returncode == -9
    assert path.read_bytes() == before
    assert Artifact.load(path).metadata == add_artifact().metadata
