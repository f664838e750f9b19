"""Version and host queries of the LLVM inside llvmlite."""

from __future__ import annotations

import llvmlite
from llvmlite import binding


def llvm_version() -> str:
    """The version of LLVM, `20.1.8`."""
    return ".".join(map(str, binding.llvm_version_info))


def llvmlite_version() -> str:
    """The version of llvmlite itself."""
    return str(llvmlite.__version__)


def host_cpu_name() -> str:
    """LLVM's name of the CPU this process runs on: `sapphirerapids`, `znver3`."""
    return str(binding.get_host_cpu_name())


def process_triple() -> str:
    """LLVM's name of the system this process runs on: `aarch64-unknown-linux-gnu`."""
    return str(binding.get_process_triple())
