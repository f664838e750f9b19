"""Models as native libraries: what is compiled, or was, written for programs without Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..runtime.artifact import Artifact
from ..runtime.executor import CompiledModel
from ..shipping.export import export_library, is_library
from .compiler import compile_request, request_of
from .request import Model


def export(
    model: Model | CompiledModel,
    path: str | os.PathLike[str],
    targets: str | Sequence[str] = "native",
    *,
    prefix: str = "",
    **options: Any,
) -> list[Path]:
    """Write a model as a native library that needs no Python, with a header for C and C++.

    Args:
        model: What `compile` takes, or a `CompiledModel`, which is written as it was compiled.
        path: `m.so`, `m.a` or `m.o`: the library, beside which `m.h` is written. A folder, `m`: libraries, header,
            weights as a safetensors file, examples, and files for CMake and pkg-config. For macOS `m.o` and for Windows
            `m.obj`: an object, beside which `m.h` and `m.weights` are written.
        targets: One instruction set or several of one machine: the library then has code for each, and the loader
            chooses by the CPU. `@macos` or `@windows` after it names another system than Linux.
        prefix: Begins the names of all functions. By default the name of the model's file, or of the model.
        **options: Arguments of `compile`.

    Returns:
        The files.

    Raises:
        UserError: The model or an argument is invalid, or the system refuses a file.
        UnsupportedError: The model uses something that is not supported.
    """
    if not Path(path).suffix:
        path = f"{os.fspath(path)}/"
    if not is_library(path):
        raise UserError(
            f"a native library must be named .so, .a, .o or .obj, or be a folder, got '{os.fspath(path)}'; "
            "`CompiledModel.save` writes compiled models"
        )
    names = [targets] if isinstance(targets, str) else list(targets)
    if not names or not all(isinstance(name, str) for name in (*names, prefix)):
        raise UserError(
            f"export: targets must name one instruction set or more and prefix be a text, got {targets!r}, {prefix!r}"
        )
    if isinstance(model, CompiledModel):
        if options or names != ["native"]:
            raise UserError(
                "a compiled model keeps its target and options; give the model itself to compile it otherwise"
            )
        artifacts = [model.artifact]
    else:
        requests = [request_of(model, target, **options) for target in names]
        artifacts = [compile_request(request).artifact for request in requests]
    return export_library(artifacts, path, name_of(model, artifacts), prefix)


def name_of(model: object, artifacts: Sequence[Artifact]) -> str:
    """Return the name of a model: that of its file, if it has one."""
    if isinstance(model, str | os.PathLike):
        return Path(model).name.partition(".")[0]
    return artifacts[0].metadata.model
