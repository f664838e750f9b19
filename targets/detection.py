"""The schema of feature detection: how code asks the CPU that runs it for instructions. The rows are in this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ..base.records import dataclass


class FeatureBit(NamedTuple):
    """The bit that tells whether a CPU has a feature: of a register, after a question with two numbers.

    `state`: the parts of its registers that the system must save when it switches between programs, as a mask.
    """

    leaf: int
    subleaf: int
    register: int
    bit: int
    state: int = 0


@dataclass(frozen=True)
class Detection:
    """The questions to a CPU.

    Args:
        bits: by LLVM's names of features.
        text: LLVM IR of `i1 @graphc_cpu_has(i32 leaf, i32 subleaf, i64 register, i32 mask)`,
            `i1 @graphc_cpu_saves(i64 state)` and `i1 @graphc_tiles_permitted()`, which any CPU of the machine can run.
            The last asks the system, as runtime/tile_permission.py does; only where tiles exist.
    """

    bits: Mapping[str, FeatureBit]
    text: str


DETECTION: dict[str, Detection] = {}
"""The detection of each machine, under LLVM's name of it."""
