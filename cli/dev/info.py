"""`graphc version`: the versions, the CPU and its machine description, for a bug report."""

from __future__ import annotations

import argparse
import json
import platform
from dataclasses import asdict
from typing import Any

from ..model_arguments import add_json_argument
from ..terminal import say

HELP = "Print versions, the CPU and its machine description, for a bug report"
KEYWORDS = ("version", "versions", "doctor", "env")
_OF_TABLE = (
    "vector_bits", "registers", "has_masks", "has_fma", "has_half_conversion", "k_unroll",
)  # fmt: skip
"""Numbers of an instruction set; its microkernels are in `matmuls`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the versions and the machine description."""
    found = facts()
    if args.json:
        say(json.dumps(found))
        return 0
    lines = flat(found)
    width = max(map(len, lines))
    for name, value in lines.items():
        say(f"{name:<{width}}  {value}")
    return 0


def facts() -> dict[str, Any]:
    """Versions, LLVM's name of this machine's CPU, the system, the native target and its machine description."""
    from ...codegen.host import target_for
    from ...codegen.llvm_info import host_cpu_name
    from ...driver.versions import reader_versions, versions
    from ...targets.microkernels import matmul_rates

    target = target_for("native")
    described = asdict(target)
    machine = described.pop("machine")
    return {
        **versions(),
        **reader_versions(),
        "cpu": host_cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "target": {**described, **{name: getattr(target.table, name) for name in _OF_TABLE}},
        "machine": machine,
        "matmuls": matmul_rates(target),
    }


def flat(found: dict[str, Any]) -> dict[str, str]:
    """Return one line for each number, nested names joined: `machine.rates.generic.f64_fma`."""
    lines: dict[str, str] = {}
    for name, value in found.items():
        if isinstance(value, dict):
            lines |= {f"{name}.{key}": inner for key, inner in flat(value).items()}
        else:
            lines[name] = str(value)
    return lines
