"""`get_func(op, ctx)`: the Tensor IR of one op. Functions are registered by op class, so that op definitions do not
depend on lowering."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import InternalError
from ...tensor_ir.nodes import Module
from ..ir.class_table import ClassTable
from ..ir.op import Op
from ..ir.op_kinds import FusibleOp
from ..ops.fused import Fused
from ..ops.scatter import Scatter
from ..ops.update_slice import UpdateInPlace
from ..rewriting.kernel_group import group_of
from ..schedule.context import LowerContext
from ..schedule.spaces import pick_schedule, space_of
from .lower_group import lower_group
from .scatter import lower_scatter
from .update_in_place import lower_update_in_place

LowerOp = Callable[[Any, LowerContext], Module]
"""(op of the class, context) -> one function, parameters inputs then outputs."""


def lower_kernel(op: Op, ctx: LowerContext) -> Module:
    """A fused group, or a fusible op alone, under its schedule; the model's pick if none was chosen."""
    space = space_of(op, ctx)
    if space is None:
        raise InternalError(f"op '{op.name}' ({op.op_name}) has no schedules")
    schedule = space.check(op.schedule) if op.schedule else pick_schedule(op, ctx)
    assert schedule is not None
    return Module((lower_group(group_of(op), schedule, ctx),))


LOWERINGS = ClassTable[LowerOp](
    {
        FusibleOp: lower_kernel,
        Fused: lower_kernel,
        Scatter: lower_scatter,
        UpdateInPlace: lower_update_in_place,
    }
)
"""How an op becomes loops, by its class; `@LOWERINGS.register(MyOp)` adds a function for a custom op."""


def get_func(op: Op, ctx: LowerContext) -> Module:
    """Tensor IR of this op alone: one function, parameters inputs then outputs."""
    lowering = LOWERINGS.find(op)
    if lowering is None:
        raise InternalError(f"op '{op.op_name}' cannot be lowered")
    return lowering(op, ctx)
