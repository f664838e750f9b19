"""Options of one compilation: frozen, passed as an argument, never global."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .errors import UserError
from .memory_limit import MemoryLimit
from .records import dataclass

SWITCHES = (
    "fold",  # evaluate ops whose inputs are all constant
    "cse",  # merge equal ops
    "simplify",  # algebraic rewrites
    "recompose",  # recognise softmax, layer norm, gelu, ... that exporters decomposed
    "quantized",  # multiply and move quantised tensors as the integers they are
    "packed-weights",  # keep weights of 4 and 8 bits packed until they are multiplied by floats
    "fixed-point",  # multiply rows of f32 by packed weights in fixed point, where dot products of bytes are fast
    "blocked-layouts",  # let propagate_layouts choose blocked formats
    "direct-convolution",  # convolve tap by tap, channels last, instead of im2col and a matrix product
    "channel-windows",  # run depthwise convolutions and pools channels last, reading images without stored padding
    "row-windows",  # run depthwise convolutions and pools channels first too, where that is how images are given
    "split-loops",  # give the edges of padded and joined rows loops of their own
    "column-blocks",  # reduce columns in blocks whose results so far stay in L1
    "row-blocks",  # run several rows of softmax and norms side by side
    "shuffled-rows",  # repeat elements of rows by shuffles of vectors
    "masked-trees",  # evaluate all conditions of small trees in vectors of rows, instead of walking
    "sort-rows",  # sort long rows by their digits, and select first where few elements are kept
    "double-windows",  # reduce large windows in passes over runs of 1, 2, 4, ... elements, instead of reading each
    "winograd",  # run 3 x 3 convolutions as Winograd convolutions: fewer multiplications, larger rounding errors
    "byte-winograd",  # the same of bytes, in integers, without any error
    "keep-f32",  # leave in f32 the matmuls and convolutions that a lower precision is predicted to slow down
    "wide-weights",  # store bytes in 16 bits that the CPU multiplies in 16 bits, where many rows meet them
    "float-sums",  # sum products of bytes in f32 where that is exact and faster
    "joint-scales",  # scale two bytes to the scale of their sum where no pair of them shows the difference
    "bounds",  # leave out bounds that numbers cannot reach before they become bytes
    "fuse",  # fuse elementwise chains into each other and into matmul epilogues
    "in-place",  # let the memory planner reuse buffers
)

WINOGRAD = ("auto", "f2", "f4")
"""Which Winograd form to use: the cost model's choice per convolution, or one form wherever it applies."""

LAYOUTS = ("auto", "blocked")
"""Which layouts products and convolutions get: the cheapest, or blocks of their images and matrices where they can."""

PRECISIONS = ("f32", "bf16", "f16", "int8", "int4")
"""What f32 models are multiplied in: as they are, operands rounded to 16 bits, quantised to bytes, 4-bit weights."""


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    `disabled` names the optimisations that are turned off (`-X no-fuse`). `dump_dir` receives the text of
    every stage that changed. `verify` checks the graph after every pass, and the final loops (the Python API and the
    commands do so if GRAPHC_VERIFY is set).
    `winograd`: one of `WINOGRAD` (`-X winograd=f4`). `max_memory`: what the model may need to run; None takes what this
    process may use.
    `precision`: one of `PRECISIONS`. `check_bounds`: code checks every access and says which one is wrong,
    on one thread and some times slower (`-X check-bounds`). `layout`: one of `LAYOUTS` (`-X layout=blocked`).
    """

    threads: int = 1
    disabled: frozenset[str] = frozenset()
    dump_dir: Path | None = None
    verify: bool = True
    winograd: str = "auto"
    max_memory: MemoryLimit | None = None
    precision: str = "f32"
    check_bounds: bool = False
    layout: str = "auto"

    def __post_init__(self) -> None:
        unknown = sorted(self.disabled - set(SWITCHES))
        if unknown:
            raise UserError(f"switch '{unknown[0]}' is not known; known are {', '.join(SWITCHES)}")
        if self.winograd not in WINOGRAD:
            raise UserError(f"winograd must be one of {', '.join(WINOGRAD)}, got '{self.winograd}'")
        if self.layout not in LAYOUTS:
            raise UserError(f"layout must be one of {', '.join(LAYOUTS)}, got '{self.layout}'")
        if self.precision not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise UserError(f"precision must be one of {known}, got '{self.precision}'")
        if self.threads < 1:
            raise UserError(f"threads must be at least 1, got {self.threads}")

    def enabled(self, switch: str) -> bool:
        """Whether an optimisation is on."""
        return switch not in self.disabled


def verify_asked(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether GRAPHC_VERIFY requests checks of every stage: off by default, as they take time."""
    return environ.get("GRAPHC_VERIFY", "") not in ("", "0")
