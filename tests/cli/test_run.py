"""`graphc run`: a saved artifact on given inputs, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import cli
from graphc.runtime.artifact import Artifact
from support import layers
from support.cli_models import layer, tiny
from support.onnx_models import evaluate, model, node

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def artifact(tmp_path: Path) -> str:
    """y = relu(-x) of shape [2,3], compiled."""
    target = str(tmp_path / "m.gcm")
    assert cli.main(["compile", tiny(tmp_path), "-q", "-o", target]) == 0
    return target


def error_of(capsys: Capture, *words: str) -> str:
    assert cli.main(["run", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err.removeprefix("graphc: error: ").rstrip("\n")


def test_a_file_in_and_files_out(artifact: str, tmp_path: Path, capsys: Capture) -> None:
    x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
    np.save(tmp_path / "x.npy", x)
    out = tmp_path / "new" / "out"
    assert (
        cli.main(["run", artifact, "--input", f"x=@{tmp_path / 'x.npy'}", "--output-dir", str(out)])
        == 0
    )
    np.testing.assert_array_equal(np.load(out / "y.npy"), np.maximum(-x, 0))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["y: f32[2,3]  min 0, max 6, mean 2", f"wrote {out / 'y.npy'}"]
    assert lines[2].startswith("ran in ") and len(lines) == 3


def test_it_computes_what_compile_run_checked(tmp_path: Path) -> None:
    path = layer(tmp_path)
    assert cli.main(["compile", path, "-qo", str(tmp_path / "m.gcm")]) == 0
    x = np.arange(32, dtype=np.float32).reshape(4, 8) - 16
    np.save(tmp_path / "x.npy", x)
    words = ["--input", f"x=@{tmp_path / 'x.npy'}", "--output-dir", str(tmp_path)]
    assert cli.main(["run", str(tmp_path / "m.gcm"), *words]) == 0
    (expected,) = evaluate(Path(path).read_bytes(), {"x": x})  # type: ignore[arg-type]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_random_inputs_are_the_same_in_every_run(artifact: str, tmp_path: Path) -> None:
    for folder, words in (
        ("a", []),
        ("b", ["--input", "x=random"]),
        ("c", ["--input", "x=f32[2,3]"]),
    ):
        assert cli.main(["run", artifact, *words, "--output-dir", str(tmp_path / folder)]) == 0
    first, *others = [np.load(tmp_path / folder / "y.npy") for folder in "abc"]
    assert first.any()
    assert all(np.array_equal(first, other) for other in others)


def test_json(artifact: str, tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["run", artifact, "--json", "--output-dir", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["outputs"] == {"y": {"type": "f32[2,3]"}}
    assert found["files"] == [str(tmp_path / "y.npy")] and found["seconds"] > 0


def test_names_that_files_cannot_bear(tmp_path: Path) -> None:
    nodes = [node("Neg", "x", "../y/z"), node("Abs", "x", "_y_z"), node("Relu", "x", "..")]
    proto = model(nodes, {"x": [2]}, outputs=["../y/z", "_y_z", ".."])
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert cli.main(["compile", str(tmp_path / "m.onnx"), "-qo", str(tmp_path / "m.gcm")]) == 0
    assert cli.main(["run", str(tmp_path / "m.gcm"), "--output-dir", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").iterdir())) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gcm", "m.onnx", "out"], (
        "none elsewhere"
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--input", "z=random"], "--input names 'z', which is not an input of the model; its inputs are x"),
        (["--input", "z=f32[2]"], "--input names 'z', which is not an input of the model; its inputs are x"),
        (["--input", "x=f32[2,4]"], "input 'x' was compiled as f32[2,3], got f32[2,4]; compile again for that shape"),
        (["--input", "x"], "--input must be NAME=VALUE, got 'x'; write x=@x.npy, x=random or x=f32[8,13]"),
        (["--input", "x=@no.npy"], "input 'x': there is no file 'no.npy'; check its name and its folder"),
        (["--output-dir", "/dev/null/out"],
         "cannot write '/dev/null/out' (Not a directory); give another path"),
        (["--threads", "-1"], "threads must be an integer from 1 to 1024, got -1"),
    ],
)  # fmt: skip
def test_bad_input(words: list[str], sentence: str, artifact: str, capsys: Capture) -> None:
    assert error_of(capsys, artifact, *words) == sentence


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (
            np.zeros((2, 3)),
            "input 'x' must be f32[2,3], got f64[2,3]; convert with x.astype('float32')",
        ),
        (np.zeros((3, 2), np.float32), "input 'x' must be f32[2,3], got f32[3,2]; "),
        (np.zeros(6, np.float32), "input 'x' must be f32[2,3], got f32[6]; "),
    ],
)
def test_wrong_arrays(
    array: np.ndarray, sentence: str, artifact: str, tmp_path: Path, capsys: Capture
) -> None:
    np.save(tmp_path / "x.npy", array)
    assert error_of(capsys, artifact, "--input", f"x=@{tmp_path / 'x.npy'}").startswith(sentence)


def test_not_an_artifact(tmp_path: Path, capsys: Capture) -> None:
    missing = str(tmp_path / "no.gcm")
    assert (
        error_of(capsys, missing) == f"there is no file '{missing}'; check its name and its folder"
    )
    (tmp_path / "bad.gcm").write_bytes(b"x" * 1000)
    sentence = error_of(capsys, str(tmp_path / "bad.gcm"))
    assert sentence.startswith("bad.gcm: is not a compiled model (.gcm); ")


def test_a_flipped_byte(artifact: str, tmp_path: Path, capsys: Capture) -> None:
    data = bytearray(Path(artifact).read_bytes())
    data[data.index(b"\x7fELF") + 100] ^= 1
    (tmp_path / "bad.gcm").write_bytes(data)
    sentence = error_of(capsys, str(tmp_path / "bad.gcm"))
    assert (
        sentence.startswith("bad.gcm: section '")
        and "is corrupt: its SHA-256 does not match; " in sentence
    )


def test_a_cut_off_file(artifact: str, tmp_path: Path, capsys: Capture) -> None:
    data = Path(artifact).read_bytes()
    (tmp_path / "bad.gcm").write_bytes(data[:-1])
    wanted = f"bad.gcm: is truncated or corrupt: it should have {len(data)} bytes, but has {len(data) - 1}; "
    assert error_of(capsys, str(tmp_path / "bad.gcm")).startswith(wanted)


def test_an_artifact_for_another_cpu(artifact: str, tmp_path: Path, capsys: Capture) -> None:
    loaded = Artifact.load(artifact)
    metadata = replace(loaded.metadata, isa="avx1024", cpu_features=("avx1024f",))
    replace(loaded, metadata=metadata).save(tmp_path / "far.gcm")
    sentence = error_of(capsys, str(tmp_path / "far.gcm"))
    assert sentence.startswith("far.gcm: needs avx1024 (avx1024f), this CPU has ")
    assert "; recompile with --target " in sentence


def test_a_shape_for_dynamic_sizes_is_told_of_the_option(tmp_path: Path, capsys: Capture) -> None:
    file = str(tmp_path / "m.gcm")
    graphc.compile(layers.layer("N"), threads=1, cache=False).save(file)
    error = error_of(capsys, file, "--input", "x=f32[2,32]")
    assert "got f32[2,32]; --size gives its dynamic sizes" in error
