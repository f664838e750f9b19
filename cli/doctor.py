"""`graphc doctor`: facts for a bug report, and checks of the installation."""

from __future__ import annotations

import argparse
import platform
from dataclasses import asdict
from typing import Any

from .model_arguments import add_options
from .terminal import answer

HELP = "Check the installation, and print what a bug report needs"
KEYWORDS = ("version", "versions", "info", "env", "health")
_OF_TABLE = (
    "vector_bits", "registers", "has_masks", "has_fma", "has_half_conversion", "k_unroll",
)  # fmt: skip
"""Numbers of an instruction set; its microkernels are in `matmuls`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Print the facts and the checks; return 1 if one fails."""
    from ..tools.doctor import checks

    found, results = facts(), checks()
    ok = all(check.ok for check in results)
    rows = flat(found) | {
        f"check.{check.name}": f"{'ok' if check.ok else 'FAILED'}: {check.text}"
        for check in results
    }
    width = max(map(len, rows))
    lines = (f"{name:<{width}}  {value}" for name, value in rows.items())
    answer(args, {**found, "checks": [asdict(check) for check in results], "ok": ok}, lines)
    return 0 if ok else 1


def facts() -> dict[str, Any]:
    """Return versions, also of packages beside graphc, the CPU, the system, the native target and its machine."""
    from ..codegen.host import target_for
    from ..codegen.llvm_info import host_cpu_name
    from ..driver.versions import reader_versions, versions
    from ..targets.microkernels import matmul_rates
    from ..tools.doctor import peers

    target = target_for("native")
    described = asdict(target)
    machine, _ = described.pop("machine"), described.pop("system")  # the native one has none
    return {
        **versions(),
        **reader_versions(),
        "cpu": host_cpu_name(),
        "system": f"{platform.system()} {platform.machine()}",
        "target": {**described, **{name: getattr(target.table, name) for name in _OF_TABLE}},
        "machine": machine,
        "matmuls": matmul_rates(target),
        "peers": peers(),
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
