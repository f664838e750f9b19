"""The same loop by `llvm-mca`, where it is installed: another model of the core, that of LLVM's scheduler."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence

from ...base.records import dataclass
from ...targets.isa import Target

PROGRAM = "llvm-mca"
ITERATIONS = 200
MAX_SECONDS = 30


@dataclass(frozen=True)
class Simulated:
    """The answer of llvm-mca on a loop: cycles of an iteration as simulated, and by the ports alone; or why it says
    nothing."""

    cycles: float = 0.0
    port_cycles: float = 0.0
    refused: str = ""


def simulate(loop: Sequence[str], target: Target) -> Simulated:
    """Simulate a loop on the target's CPU."""
    program = shutil.which(PROGRAM)
    if program is None:
        return Simulated(refused=f"{PROGRAM} is not installed (Debian: apt install llvm)")
    command = [program, f"-mcpu={target.cpu}", f"-iterations={ITERATIONS}", "--resource-pressure=0",
               "--instruction-info=0", "-"]  # fmt: skip
    text = "\n".join(loop) + "\n"
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Simulated(refused=f"{PROGRAM} did not run: {error}")
    total = re.search(r"^Total Cycles:\s+(\d+)", done.stdout, re.MULTILINE)
    ports = re.search(r"^Block RThroughput:\s+([\d.]+)", done.stdout, re.MULTILINE)
    if done.returncode or total is None or ports is None:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no result"]
        return Simulated(
            refused=f"{PROGRAM} cannot read the loop: {lines[0].partition('error: ')[2] or lines[0]}"
        )
    return Simulated(int(total[1]) / ITERATIONS, float(ports[1]))
