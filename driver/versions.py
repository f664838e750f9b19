"""The versions of graphc and of what it uses: for artifacts, verdicts and bug reports."""

from __future__ import annotations

import platform
from functools import cache

import numpy as np

from ..base.version import __version__
from ..codegen.llvm_info import llvm_version, llvmlite_version


def versions() -> dict[str, str]:
    """Name -> version, of everything that affects the code generated from a graph."""
    return {
        "graphc": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": llvmlite_version(),
        "llvm": llvm_version(),
    }


@cache
def reader_versions() -> dict[str, str]:
    """Name -> version, of the libraries that read models. The module that looks them up takes 10 ms to load."""
    from importlib.metadata import version

    return {"onnx": version("onnx")}
