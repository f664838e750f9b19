"""The versions of graphc and of what it uses: for artifacts, verdicts and bug reports."""

from __future__ import annotations

import platform
from importlib.metadata import version

from ..base.version import __version__


def versions() -> dict[str, str]:
    """Name -> version, of everything that affects the generated code."""
    from ..codegen.llvm_info import llvm_version

    return {
        "graphc": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "onnx": version("onnx"),
        "llvmlite": version("llvmlite"),
        "llvm": llvm_version(),
    }
