"""The innermost loop of a kernel's assembly, and the registers it saves to the stack."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MULTIPLY_ADD = re.compile(r"vfn?madd|mulps|mulpd|vpdp|vdpbf16|tdp[bf]|vpmaddwd|\bs?u?dot\b|fmla")


def inner_loop(lines: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """(instructions of the assembly loop with the most multiply-adds, vector stores to the stack in it)."""
    best: tuple[str, ...] = ()
    most = 0
    for block in _loops(lines):
        count = sum(bool(_MULTIPLY_ADD.search(line)) for line in block)
        if count > most:
            best, most = block, count
    return best, sum(bool(_SPILL.search(line)) for line in best)


_LABEL = re.compile(r"^(\.L\w+):")
_JUMP = re.compile(r"^\s+j\w+\s+(\.L\w+)")
_SPILL = re.compile(r"\sv?mov[au]p[sd]\s+%[xyz]mm\d+, -?\d*\(%r[sb]p\)")


def _loops(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Runs of lines from a label to the first jump back to it, with no other label inside."""
    start: tuple[str, int] | None = None
    for number, line in enumerate(lines):
        label, jump = _LABEL.match(line), _JUMP.match(line)
        if label:
            start = (label[1], number)
        elif jump and start and jump[1] == start[0]:
            yield tuple(lines[start[1] : number + 1])
            start = None
