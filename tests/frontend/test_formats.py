"""The registry of formats: what derives from it, what it refuses, and one that user code adds."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.driver.cache_key import file_key
from graphc.driver.request import CompileRequest
from graphc.frontend import format_of, load
from graphc.frontend.formats import FORMATS, Format, Reading, output_format, register
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.convert import convert

MARK = b"#squares"


def read_square(source: Any, how: Reading) -> Graph:
    graph = Graph("square")
    x = graph.make_input(LogicalTensor(F32, how.inputs["x"].dims), "x")
    graph.make_output(graph.make("square", [x]).outputs[0], "y")
    return graph


def squares() -> Format:
    return Format(
        "squares", ".sq", "squares", "`.sq`",
        detect=lambda suffix, head: head.startswith(MARK), reader=read_square,
    )  # fmt: skip


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Format:
    monkeypatch.setattr("graphc.frontend.formats.FORMATS", known := dict(FORMATS))
    for module in ("graphc.frontend", "graphc.tools.convert"):
        monkeypatch.setattr(f"{module}.FORMATS", known)
    register(one := squares())
    return one


def test_the_last_four_formats_are_only_written() -> None:
    written_only = [one.name for one in FORMATS.values() if one.reader is None]
    assert written_only == list(FORMATS)[-4:], "as docs/reference/formats.md says"


def test_a_format_of_user_code_is_recognized_read_and_listed(
    registered: Format, tmp_path: Path
) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(MARK)
    assert format_of(path) == "squares"
    for model in (path, MARK):
        graph = load(model, {"x": "f32[3]"})
        assert graph.evaluate([np.array([1, 2, 3], np.float32)])[0].tolist() == [1, 4, 9]
        request = CompileRequest(
            model, graphc.targets.isa.Target("generic"), inputs={"x": "f32[3]"}
        )
        assert file_key(request) is None, "its bytes do not tell what its reader makes of them"
    with pytest.raises(
        UserError,
        match=r"^format 'squares' is only read, it cannot be written; ",
    ):
        convert(path, "squares", tmp_path / "again.sq", {"x": "f32[3]"})
    with pytest.raises(UserError, match="known are onnx"):
        output_format("squares")


@pytest.mark.parametrize("name", [one.name for one in FORMATS.values() if one.reader is None])
def test_a_format_that_is_only_written_is_refused(name: str) -> None:
    with pytest.raises(
        UserError,
        match=f"^format '{name}' is only written, it cannot be read; ",
    ):
        FORMATS[name].read(b"", Reading())


@pytest.mark.parametrize(("name", "suffix"), [("onnx", ".o"), ("other", ".onnx")])
def test_names_and_suffixes_are_taken_once(registered: Format, name: str, suffix: str) -> None:
    with pytest.raises(UserError, match="names and suffixes of formats must differ"):
        register(Format(name, suffix, "", ""))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_pipes_devices_and_sockets_are_not_models(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(tmp_path / "socket"))
    for path, what in {
        tmp_path / "pipe": "a pipe",
        tmp_path / "socket": "a socket",
        Path("/dev/zero"): "a device",
    }.items():
        sentence = f"^a model must be a file, '{path}' is {what}; copy its contents into a file$"
        with pytest.raises(UserError, match=sentence):
            load(path)
    if (status := Path("/proc/self/status")).exists():
        with pytest.raises(UserError, match="has no bytes"):
            load(status)


SAFETENSORS = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
OTHERS = {
    "m.safetensors": (
        len(SAFETENSORS).to_bytes(8, "little") + SAFETENSORS + bytes(8),
        "a safetensors file, weights without a graph",
    ),
    "weights": (b"\x89HDF\r\n\x1a\n" + bytes(8), "an HDF5 file"),
    "m.tflite": (b"\x1c\0\0\0TFL3" + bytes(8), "a TensorFlow Lite model"),
    "m.ort": (b"\x1c\0\0\0ORTM" + bytes(8), "an ONNX Runtime model"),
    "x.npy": (b"\x93NUMPY\x01\0" + bytes(8), "a NumPy array"),
    "m.xml": (b"<?xml version='1.0'?><net/>", "an XML file"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_that_are_not_read_are_called_what_they_are(name: str, tmp_path: Path) -> None:
    content, what = OTHERS[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(graphc.UnsupportedError, match=f"'{path}' is {what}.* is not supported; "):
        graphc.compile(path)
    with pytest.raises(graphc.UnsupportedError, match=f"the model is {what}"):
        graphc.compile(content)


def test_what_only_begins_like_one_is_not_taken_for_one(tmp_path: Path) -> None:
    nested = b'{"a":' * 9000
    nested = len(nested).to_bytes(8, "little") + nested
    for content in (
        nested,
        b"GGU",
        bytes([1, 0, 0, 0, 0, 0, 0, 0]) + b"{",
        b"\x08{\0\0\0\0\0\0{not json}",
    ):
        with pytest.raises(graphc.UserError, match="cannot be decoded as an ONNX model"):
            graphc.compile(content)
