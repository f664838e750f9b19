"""`graphc version`: what a bug report has to say about the software and the CPU."""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import version

from .. import __version__

NAME = "version"
HELP = "Show the versions of graphc and of what it uses, and the CPU."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the versions."""
    facts = versions()
    if args.json:
        print(json.dumps(facts))
    else:
        width = max(map(len, facts))
        for name, value in facts.items():
            print(f"{name:<{width}}  {value}")
    return 0


def versions() -> dict[str, str]:
    """Name -> version, and `cpu` -> LLVM's name of this machine's CPU."""
    from ..codegen.llvm_info import host_cpu_name, llvm_version

    return {
        "graphc": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "onnx": version("onnx"),
        "llvmlite": version("llvmlite"),
        "llvm": llvm_version(),
        "cpu": host_cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
    }
