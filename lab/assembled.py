"""Assembly text to object code: LLVM assembles it as the inline assembly of an empty module.

LLVM ends the process where the text is wrong, so another does it:

    python -m graphc.lab.assembled ISA CPU FEATURES < kernel.s > kernel.o
"""

from __future__ import annotations

import subprocess
import sys

from ..base.errors import UserError
from ..codegen.aot import compile_to_object
from ..targets.isa import Target

MAX_SECONDS = 120
MODULE = "graphc.lab.assembled"


def assembled(text: str, target: Target) -> bytes:
    """Return the object code of an assembly file. UserError with LLVM's message if it is wrong."""
    command = [sys.executable, "-m", MODULE, target.isa, target.cpu, target.features]
    done = subprocess.run(
        command, input=text.encode(), capture_output=True, timeout=MAX_SECONDS, check=False
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").splitlines()
        why = next((line for line in lines if "error:" in line), f"exit code {done.returncode}")
        raise UserError(
            f"assembly must be what LLVM reads, got: {why.partition('error:')[2].strip() or why}"
        )
    return done.stdout


def main() -> None:
    """Assemble what stands on stdin."""
    isa, cpu, features = sys.argv[1:4]
    target = Target(isa, cpu, features)
    lines = (f'module asm "{_escaped(line)}"\n' for line in sys.stdin.read().splitlines())
    sys.stdout.buffer.write(compile_to_object("".join(lines), target))


def _escaped(line: str) -> str:
    return line.replace("\\", "\\5C").replace('"', "\\22").replace("\t", "\\09")


if __name__ == "__main__":
    main()
