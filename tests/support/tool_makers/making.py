"""Parts shared by makers: the folders of files, exports of PyTorch's modules, and refusals of tools."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

Save = Callable[[str, Path, Mapping[str, Any], Sequence[Any] | None], None]
"""Takes a name, a file, inputs and the tool's own results; None asks ONNX Runtime for them."""


def write_onnx(model: Any, x: Any, path: Path, **options: Any) -> Path:
    """Write a module as ONNX, its input named x."""
    import torch

    torch.onnx.export(
        model, (x,), path, input_names=["x"], verbose=False, external_data=False, **options
    )
    return path


def new_folder() -> Path:
    return Path(tempfile.mkdtemp())


class attempt:
    """A context that notes what a tool itself refuses, and goes on."""

    notes: ClassVar[dict[str, str]] = {}
    libraries: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        if isinstance(error, Exception):
            self.notes[self._name] = (
                f"{type(error).__name__}: {str(error).strip().splitlines()[:1]}"
            )
        return isinstance(error, Exception)
