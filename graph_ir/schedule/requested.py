"""The requested schedule of an op: by its name from a user, by its problem from a tuning file."""

from __future__ import annotations

from ..ir.op import Op
from ..ir.schedule import Schedule
from .context import LowerContext


def wanted_by_name(op: Op, ctx: LowerContext) -> Schedule | None:
    """Return the schedule a user requested for an op, by its name or that of the op of the model it was made of."""
    return next((s for name, s in ctx.requested.items() if is_called(op, name)), None)


def is_called(op: Op, name: str) -> bool:
    """Return whether `name` is an op's own, or that of the composite op it is the main part
    of (`conv1.matmul_core`)."""
    return op.name in (name, f"{name}.{op.op_name}")


def requested_settings(op: Op, problem: str, ctx: LowerContext) -> Schedule:
    """Return the schedule requested for a tuned op before layouts are chosen; an empty schedule if there is none."""
    return wanted_by_name(op, ctx) or ctx.tuned.get(problem) or Schedule("")
