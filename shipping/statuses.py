"""The results of a call in C: 0, negative numbers for calls that did not run, and what stopped a run."""

from __future__ import annotations

from typing import NamedTuple


class Status(NamedTuple):
    """A result of `m_run`: the end of its name in C, its number, and its text."""

    name: str
    code: int
    text: str


STATUSES = (
    Status("OK", 0, "the model has run"),
    Status("ERROR_CPU", -1, "this CPU or system lacks instructions that the code needs"),
    Status("ERROR_INPUT", -2, "there is no such input, or its pointer is null or unaligned"),
    Status("ERROR_OUTPUT", -3, "there is no such output, or its pointer is null, unaligned, or not that of its input"),
    Status("ERROR_DIMS", -4, "a dynamic dimension is not given or outside of its range"),
    Status("ERROR_WEIGHTS", -5, "the weights are not given, not aligned to 64 bytes, or of another model"),
    Status("ERROR_ARENA", -6, "the arena is null, not aligned to 64 bytes, or too small"),
    Status("ERROR_ROOM", -7, "a size that the data decide is larger than the room given for it"),
    Status("ERROR_CONDITION", -8, "the inputs break a condition of the model"),
)  # fmt: skip

CODES = {status.name: status.code for status in STATUSES}
