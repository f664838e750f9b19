"""One way to lay out what an op reads and makes."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.format import Format


@dataclass(frozen=True)
class FormatChoice:
    """A format per input and per output of an op.

    `cost` is what the op itself pays for this choice beyond its best one, in bytes moved (a copy into panels).
    """

    inputs: tuple[Format, ...]
    outputs: tuple[Format, ...]
    cost: float = 0.0
