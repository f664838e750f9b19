"""Derives the arguments of the scan template from cum_sum and its like."""

from __future__ import annotations

from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Module
from ...tensor_ir.sizes import shape_of
from ..ir.group_values import parameters
from ..ops.cumulative import Cumulative
from ..ops.reduce import identity
from ..schedule.context import LowerContext
from ..schedule.scan import axis_sizes
from ..schedule.spaces import schedule_of
from ..templates.scan import Scan, scan_function


def lower_scan(op: Cumulative, ctx: LowerContext) -> Module:
    """One function: x, then the result, both flat."""
    (x,), (y,) = op.inputs, op.outputs
    start = identity(op.combine, x.details.dtype.accumulator)
    scan = Scan(*axis_sizes(op), op.combine, start, op.exclusive, op.reverse)
    shape = identifier("x".join(map(str, x.details.plain_dims)))
    source, result = (
        Buffer(b.name, b.dtype, shape_of((x.details.elements,)))
        for b in parameters([x], [y]).values()
    )
    function = scan_function(
        f"{x.details.dtype}_{op.op_name}_{shape}__{ctx.target.isa}",
        source,
        result,
        scan,
        schedule_of(op, ctx),
        op.name,
    )
    return Module((function,))
