"""Comments that describe the loops of a group in a printed program."""

from __future__ import annotations

from ..ir.schedule import Schedule
from ..rewriting.kernel_group import KernelGroup


def group_note(group: KernelGroup, schedule: Schedule) -> str:
    """The names of a group's ops and its schedule, for display."""
    return f"{' -> '.join(op.name for op in group.ops)} [{schedule}]"
