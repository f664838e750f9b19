"""Identifies files, so that a command given another kind of file says what it is and which command takes it."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import UnsupportedError, UserError
from ..base.records import dataclass

MODEL = "model"
ARTIFACT = "artifact"
TENSORS = "tensors"
LANGUAGE_MODEL = "language model"
"""A model whose tokenizer and decoder are in one file; commands that take models take its decoder."""
FOLDER = "folder"
"""A language model whose weights, tokenizer and settings are files of a folder."""

EXPECTED = {
    MODEL: "a model file",
    LANGUAGE_MODEL: "a language model (.gguf)",
    FOLDER: "a folder of Hugging Face Transformers or onnxruntime-genai",
    ARTIFACT: "a compiled model (.gcm)",
    TENSORS: "a dump of `graphc dev debug` or a .params file",
}
"""Names of the kinds in the message of a command that takes them."""

_REMEDIES = {
    MODEL: "`graphc inspect ops {0}` lists its ops, `graphc compile {0} --run` compiles and runs it",
    ARTIFACT: "`graphc run {0}` runs it",
    TENSORS: "`graphc inspect dump {0}` lists its tensors",
    LANGUAGE_MODEL: "`graphc generate {0} PROMPT` continues a text",
}
"""Commands for a file, by its kind."""

_FORMAT_NAMES = {
    "onnx": "an ONNX model",
    "tvm": "a TVM graph",
    "hlo": "a module in HLO or StableHLO",
    "ge": "a GE dump",
    "pnnx": "a PNNX model",
    "torch": "an exported program of PyTorch",
    "gguf": "a GGUF file, a language model",
    "graph": "a graph in graphc's own text",
}
_NO_FORMAT = "a file of no format that graphc knows"
_ONNX_BEGIN = b"\x08"  # the tag of `ir_version`, the first field of a ModelProto


@dataclass(frozen=True)
class FileKind:
    """A kind that commands take, with the description of the file and the command that takes it.

    `kind` is "" for a file that no command takes as its model, dump or artifact, and `UNKNOWN` for one that the reader
    of models is to judge.
    """

    kind: str
    name: str
    remedy: str


UNKNOWN = "unknown"


def require_kind(path: str, takes: Sequence[str], command: str) -> None:
    """Raise UserError for an existing file that is known to be of another kind than those that `command` takes."""
    found = identify(Path(path))
    is_model = found is not None and found.kind in (UNKNOWN, LANGUAGE_MODEL) and MODEL in takes
    if found is None or found.kind in takes or is_model:
        return
    expected = " or ".join(EXPECTED[kind] for kind in takes)
    raise UserError(f"`{command}` takes {expected}, but {described(path, found)}")


def described(path: str, found: FileKind) -> str:
    """Return what a file is and what to do with it: "'m.gcm' is a compiled model (.gcm); `graphc run m.gcm` ..."."""
    return f"'{path}' is {found.name}; {found.remedy.format(shlex.quote(path))}"


def identify(path: Path) -> FileKind | None:
    """Return the kind of a file or folder by its first bytes; None if it does not exist or is not a regular file."""
    from ..frontend.formats import HEAD_BYTES

    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _folder_kind(path)
        if not stat.S_ISREG(mode):
            return None
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return None
    return _data_kind(path, head) or _model_kind(path, head)


def check_replaced(path: Path, new: Path) -> None:
    """Raise UserError if the file at `path` is of a known kind and the one that is to replace it, `new`, of another."""
    from ..frontend.formats import HEAD_BYTES

    try:
        with path.open("rb") as old_file, new.open("rb") as new_file:
            old, written = old_file.read(HEAD_BYTES), new_file.read(HEAD_BYTES)
    except OSError:  # such as a link to a missing file
        return
    for suffix in ("", path.suffix):  # some kinds are told by their names alone
        name = Path(f"x{suffix}")
        found = _data_kind(name, old) or _model_kind(name, old)
        if not old or found is None or found.name == _NO_FORMAT:
            continue
        other = _data_kind(name, written) or _model_kind(name, written)
        if other is None or other.name != found.name:
            raise UserError(
                f"the output '{path}' must not replace {found.name} by a file of another kind; "
                "give another path, or delete the file first"
            )
        return


def _folder_kind(path: Path) -> FileKind:
    from ..tools import debug_dump

    tensors = debug_dump.TENSORS_FILE
    if (path / tensors).is_file() or (path / debug_dump.FOLDER / tensors).is_file():
        return FileKind(TENSORS, "a dump of `graphc dev debug`", _REMEDIES[TENSORS])
    is_exported = (path / "genai_config.json").is_file()
    if is_exported or ((path / "config.json").is_file() and any(path.glob("*.safetensors"))):
        return FileKind(FOLDER, "a folder of a language model", _REMEDIES[LANGUAGE_MODEL])
    if (path / "saved_model.pb").is_file():
        return FileKind(
            "", "a TensorFlow SavedModel", "convert it to ONNX, for example with tf2onnx"
        )
    return FileKind(UNKNOWN, "a folder", "give a file in it")


def _data_kind(path: Path, head: bytes) -> FileKind | None:
    """Return the kind of a file that holds no model."""
    from ..frontend import ARTIFACT_MAGIC
    from ..frontend.tvm.params import FILE_MAGIC

    if head.startswith(ARTIFACT_MAGIC):
        return FileKind(ARTIFACT, "a compiled model (.gcm)", _REMEDIES[ARTIFACT])
    if head.startswith(FILE_MAGIC):
        return FileKind(TENSORS, "a TVM parameter file (.params)", _REMEDIES[TENSORS])
    if path.suffix == ".npz":
        remedy = "`graphc convert MODEL --calibrate {0}` takes such files"
        return FileKind("", "an archive of NumPy arrays", remedy)
    if head.lstrip()[:14].lower().startswith((b"<!doctype html", b"<html")):
        return FileKind("", "an HTML page", "open it in a browser")
    if path.suffix == ".py":
        return FileKind("", "a Python program", "export its model, or load it with --plugin {0}")
    return None


def _model_kind(path: Path, head: bytes) -> FileKind | None:
    """Return the kind of a model file of any format, or what a file of another tool is."""
    from ..frontend.formats import detect
    from ..frontend.other_formats import other_format

    try:
        name = detect(path.suffix, head).name
    except UnsupportedError:
        other = other_format(head)
        return FileKind(UNKNOWN, other.name, other.remedy) if other else None
    if name == "onnx" and path.suffix != ".onnx" and not head.startswith(_ONNX_BEGIN):
        corrupt = {".gcm": ARTIFACT, ".params": TENSORS}.get(path.suffix, UNKNOWN)
        return FileKind(corrupt, _NO_FORMAT, "check its name")
    what = _FORMAT_NAMES.get(name, f"a model of format '{name}'")
    if name == "gguf":
        return FileKind(LANGUAGE_MODEL, what, _REMEDIES[LANGUAGE_MODEL])
    return FileKind(MODEL, what, _REMEDIES[MODEL])
