"""Weights in other files: where they are, and which files are not read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from graphc import cli
from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.frontend.onnx.tensors import to_array
from support.onnx_models import model, node


def external(**entries: str) -> TensorProto:
    proto = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 3])
    proto.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        proto.external_data.add(key=key, value=value)
    return proto


def test_data_beside_the_model(tmp_path: Path) -> None:
    data = np.arange(8, dtype=np.float32)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(data.tobytes())
    proto = model([node("Add", "x w")], {"x": [2, 3]})
    proto.graph.initializer.append(external(location="data/w.bin", offset="8", length="24"))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    (y,) = load(tmp_path / "m.onnx").evaluate([np.zeros((2, 3), np.float32)])
    np.testing.assert_array_equal(y, data[2:].reshape(2, 3))


OUTSIDE = "w: its data file must lie in the model's folder, got "


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../w.bin"}, f"{OUTSIDE}'../w.bin'"),
        ({"location": "a/../../w.bin"}, f"{OUTSIDE}'a/../../w.bin'"),
        ({"location": "/etc/passwd"}, f"{OUTSIDE}'/etc/passwd'"),
        ({"location": "link.bin"}, f"{OUTSIDE}'link.bin'"),
        (
            {"location": "none"},
            "w: its data file 'none' must lie beside the model, but it is missing; copy it there",
        ),
        (
            {"location": "."},
            "w: its data file '.' must lie beside the model, but it is missing; copy it there",
        ),
        (
            {"location": "n" * 300},
            f"w: its data file '{'n' * 57}...' cannot be opened: File name too long; check its permissions",
        ),
        (
            {"location": "a/" * 3000 + "a"},
            f"w: its data file '{('a/' * 30)[:57]}...' cannot be opened: File name too long; check its permissions",
        ),
        (
            {"location": "pipe"},
            "w: its data file 'pipe' must lie beside the model, but it is missing; copy it there",
        ),
        (
            {"location": "hard.bin"},
            "w: its data file 'hard.bin' must have one name, but has 2 (hard links), "
            "of which some may lie outside the model's folder; replace it by a copy",
        ),
        ({}, "w: the name of its data file must be given, got ''"),
        (
            {"location": "w.bin", "offset": "8"},
            "w: bytes 8 to 32 of 'w.bin' are needed, but it has 24; "
            "the file is truncated or belongs to another model",
        ),
        (
            {"location": "w.bin", "length": "20"},
            "w: its shape takes 24 bytes, but the entry for 'w.bin' says 20",
        ),
        (
            {"location": "w.bin", "offset": "-4"},
            "w: offset of its data file must be a number of bytes, got '-4'",
        ),
    ],
)
def test_data_files_that_do_not_fit(entries: dict[str, str], message: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for directory in (tmp_path, folder):
        (directory / "w.bin").write_bytes(bytes(24))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (tmp_path / "secret").write_bytes(bytes(24))
    os.link(tmp_path / "secret", folder / "hard.bin")
    os.mkfifo(folder / "pipe")
    with pytest.raises(UserError) as error:
        to_array(external(**entries), "w", folder)
    assert str(error.value) == message


def test_data_files_need_a_path() -> None:
    with pytest.raises(UserError) as error:
        to_array(external(location="w.bin"), "w", None)
    assert str(error.value) == (
        "w: its data is in another file, so the model must be given as a path, not as bytes"
    )


def test_links_inside_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.arange(6, dtype=np.float32).tobytes())
    (tmp_path / "link.bin").symlink_to("w.bin")
    value = to_array(external(location="link.bin"), "w", tmp_path)
    np.testing.assert_array_equal(value, np.arange(6).reshape(2, 3))


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "loop.bin").symlink_to("loop.bin")
    with pytest.raises(UserError, match="^w: its data file 'loop.bin' cannot be opened: "):
        to_array(external(location="loop.bin"), "w", tmp_path)


def test_the_command_line_says_what_is_wrong_with_a_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proto = model([node("Add", "x w")], {"x": [2, 3]})
    proto.graph.initializer.append(external(location="n" * 300))
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    assert cli.main(["compile", str(tmp_path / "m.onnx")]) == 2
    assert "cannot be opened: File name too long; check its permissions" in capsys.readouterr().err
