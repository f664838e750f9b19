"""Messages of commands about files that another command takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from graphc.base.errors import UserError
from graphc.base.whole_file import write_file
from graphc.cli import main
from graphc.cli.file_kinds import identify
from graphc.frontend.tvm.params import write_params
from support.cli_models import tiny
from support.process import ROOT

EXAMPLES = ROOT / "examples"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """A file of each kind, by its name."""
    write_params(tmp_path / "w.params", {"w": np.zeros(2, np.float32)})
    np.save(tmp_path / "x.npy", np.zeros(2))
    np.savez(tmp_path / "x.npz", np.zeros(2))
    (tmp_path / "page.html").write_text("<!DOCTYPE html><html></html>")
    (tmp_path / "net.py").write_text("import torch\n")
    (tmp_path / "notes.txt").write_text("some text\n")
    (tmp_path / "weights.gguf").write_bytes(b"GGUF" + bytes(64))
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "saved_model.pb").write_bytes(b"\x08\x01")
    (tmp_path / "empty").mkdir()
    (tmp_path / "decoder").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "decoder" / name).write_bytes(b"{}")
    (tmp_path / "exported").mkdir()
    (tmp_path / "exported" / "genai_config.json").write_bytes(b"{}")
    found = {path.name: str(path) for path in tmp_path.iterdir()}
    assert main(["compile", tiny(tmp_path), "-q", "-o", str(tmp_path / "m.gcm")]) == 0
    return {**found, "tiny.onnx": tiny(tmp_path), "m.gcm": str(tmp_path / "m.gcm")}


KINDS = {
    "tiny.onnx": ("model", "an ONNX model"),
    "m.gcm": ("artifact", "a compiled model (.gcm)"),
    "w.params": ("tensors", "a TVM parameter file (.params)"),
    "x.npy": ("unknown", "a NumPy array"),
    "x.npz": ("", "an archive of NumPy arrays"),
    "page.html": ("", "an HTML page"),
    "net.py": ("", "a Python program"),
    "notes.txt": ("unknown", "a file of no format that graphc knows"),
    "saved": ("", "a TensorFlow SavedModel"),
    "empty": ("unknown", "a folder"),
    **dict.fromkeys(("decoder", "exported"), ("folder", "a folder of a language model")),
}


def test_each_kind_is_told_by_its_content(files: dict[str, str]) -> None:
    for name, kind in KINDS.items():
        found = identify(Path(files[name]))
        assert found is not None and (found.kind, found.name) == kind
    for name, what in {
        "mlp.onnx": "an ONNX model",
        "linear.pnnx.param": "a PNNX model",
        "block.hlo": "a module in HLO or StableHLO",
    }.items():
        found = identify(EXAMPLES / name)
        assert found is not None and (found.kind, found.name) == ("model", what)
    assert identify(Path("/dev/null")) is None and identify(Path("nothing")) is None


REFUSALS = {
    "run tiny.onnx": "`graphc run` takes a compiled model (.gcm), but '{}' is an ONNX model; `graphc inspect ops {}` "
    "lists its ops, `graphc compile {} --run` compiles and runs it",
    "inspect dump tiny.onnx": "`graphc inspect dump` takes a dump of `graphc dev debug` or a .params file, but "
    "'{}' is an ONNX model; `graphc inspect ops {}` lists its ops, `graphc compile {} --run` compiles and runs it",
    "compile m.gcm": "`graphc compile` takes a model file, but '{}' is a compiled model (.gcm); `graphc run {}` "
    "runs it",
    "profile w.params": "`graphc profile` takes a model file, but '{}' is a TVM parameter file (.params); "
    "`graphc inspect dump {}` lists its tensors",
    "explain page.html": "`graphc explain` takes a model file, but '{}' is an HTML page; open it in a browser",
    "inspect check saved": "`graphc inspect check` takes a model file, but '{}' is a TensorFlow SavedModel; "
    "convert it to ONNX, "
    "for example with tf2onnx",
    "run notes.txt": "`graphc run` takes a compiled model (.gcm), but '{}' is a file of no format that graphc knows; "
    "check its name",
    "dev debug w.params": "`graphc dev debug` takes a model file or a compiled model (.gcm), but '{}' is a "
    "TVM parameter file (.params); `graphc inspect dump {}` lists its tensors",
}


@pytest.mark.parametrize("line", REFUSALS)
def test_another_kind_is_refused_with_the_command_that_takes_it(
    line: str, files: dict[str, str], capsys: Capture
) -> None:
    *words, name = line.split()
    assert main([*words, files[name]]) == 2
    assert capsys.readouterr().err == (
        f"graphc: error: {REFUSALS[line].replace('{}', files[name])}\n"
    )


@pytest.mark.parametrize("words", [[], ["inspect"], ["dev"]])
def test_a_file_instead_of_a_command(words: list[str], capsys: Capture) -> None:
    model = str(EXAMPLES / "mlp.onnx")
    with pytest.raises(SystemExit) as stop:
        main([*words, model])
    assert stop.value.code == 2
    said = (
        f"graphc: error: '{model}' is an ONNX model; `graphc inspect ops {model}` lists its ops, "
    )
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("victim", ["tiny.onnx", "m.gcm", "w.params", "x.npy", "x.npz", "net.py"])
def test_a_known_file_is_not_replaced_by_another_kind(victim: str, files: dict[str, str]) -> None:
    path = Path(files[victim])
    before = path.read_bytes()
    for content in ("text", b"\x7fELF") if path.suffix not in (".npz", ".py") else ():
        with pytest.raises(UserError, match="must not replace an? .* by a file of another kind"):
            write_file(path, content)
    assert path.read_bytes() == before and len(list(path.parent.iterdir())) == len(files)
    write_file(path, before)


@pytest.mark.parametrize("suffix", ["graph", "hlo", "json", "txt", "pnnx.param", "dot", "svg", "onnx"])  # fmt: skip
def test_outputs_replace_earlier_ones_of_their_kind(suffix: str, tmp_path: Path) -> None:
    for _ in range(2):
        assert main(["convert", tiny(tmp_path), "-q", "-o", str(tmp_path / f"new.{suffix}")]) == 0


def test_sources_of_a_command_are_not_replaced(tmp_path: Path, capsys: Capture) -> None:
    """The model itself, by its name or another, and its external data."""
    tiny(tmp_path)
    model, data = onnx.load(EXAMPLES / "mlp.onnx"), tmp_path / "big.weights"
    big = str(tmp_path / "big.onnx")
    onnx.save(model, big, save_as_external_data=True, location=data.name, size_threshold=0)
    (tmp_path / "link.onnx").symlink_to("tiny.onnx")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for source, output in (
        ("tiny.onnx", "tiny.onnx"),
        ("link.onnx", "tiny.onnx"),
        ("tiny.onnx", "link.onnx"),
        ("big.onnx", "big.weights"),
        ("big.onnx", ""),
    ):
        words = ["compile", str(tmp_path / source), "-q", "-o", f"{tmp_path}/{output}"]
        assert main(words) == 2
        assert "must not replace a file that " in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
