"""Derives the arguments of the scan template from cum_sum and cum_prod."""

from __future__ import annotations

import math

from ...base.dims import bounds
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Module
from ..ir.group_values import parameters
from ..ops.cumulative import Cumulative
from ..schedule.context import LowerContext
from ..templates.scan import Scan, scan_function


def lower_scan(op: Cumulative, ctx: LowerContext) -> Module:
    """One function: x, then the result, both flat."""
    (x,), (y,) = op.inputs, op.outputs
    dims, axis = x.details.plain_dims, op.axis
    outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
    if 0 in dims:
        outer = inner = 0
    scan = Scan(outer, dims[axis], inner, op.combine, op.exclusive, op.reverse)
    shape = identifier("x".join(map(str, dims)))
    source, result = (
        Buffer(b.name, b.dtype, (x.details.elements,)) for b in parameters([x], [y]).values()
    )
    function = scan_function(
        f"{x.details.dtype}_{op.op_name}_{shape}__{ctx.target.isa}",
        source,
        result,
        scan,
        ctx.options.threads
        if bounds(x.details.elements)[1] >= ctx.target.machine.parallel_elements
        else 1,
        op.name,
    )
    return Module((function,))
