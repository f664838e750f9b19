"""`graphc version`: the versions and the CPU, for a bug report."""

from __future__ import annotations

import argparse
import json
import platform

from .terminal import say

NAME = "version"
HELP = "Show the versions of graphc and its dependencies, and the CPU."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the versions."""
    found = facts()
    if args.json:
        say(json.dumps(found))
    else:
        width = max(map(len, found))
        for name, value in found.items():
            say(f"{name:<{width}}  {value}")
    return 0


def facts() -> dict[str, str]:
    """Versions, LLVM's name of this machine's CPU, and the system."""
    from ..codegen.llvm_info import host_cpu_name
    from ..driver.versions import versions

    return {
        **versions(),
        "cpu": host_cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
    }
