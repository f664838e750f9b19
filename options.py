"""Options of one compilation: frozen, passed as an argument, never global."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .errors import UserError

SWITCHES = (
    "fold",  # evaluate ops whose inputs are all constant
    "cse",  # merge equal ops
    "simplify",  # algebraic rewrites
    "recompose",  # recognise softmax, layer norm, gelu, ... in what exporters decomposed
    "blocked-layouts",  # let propagate_layouts choose blocked formats
    "direct-convolution",  # convolve tap by tap, channels last, instead of multiplying patches
    "fuse",  # fuse elementwise chains into each other and into matmul epilogues
    "in-place",  # let the memory planner reuse buffers
)


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    `disabled` holds the kill switches that are off (`-X no-fuse`). `dump_dir` receives the text of
    every stage that changed. `verify` checks the graph after every pass, and the final loops.
    """

    threads: int = 1
    disabled: frozenset[str] = frozenset()
    dump_dir: Path | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        unknown = sorted(self.disabled - set(SWITCHES))
        if unknown:
            raise UserError(f"switch '{unknown[0]}' is not known; known are {', '.join(SWITCHES)}")
        if self.threads < 1:
            raise UserError(f"threads must be at least 1, got {self.threads}")

    def enabled(self, switch: str) -> bool:
        """Whether an optimisation is on."""
        return switch not in self.disabled
