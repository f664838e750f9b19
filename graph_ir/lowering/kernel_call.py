"""The function of a kernel of user code, by the name that its call holds."""

from __future__ import annotations

from ...base.errors import UserError
from ...tensor_ir.nodes import Module
from ..ir.group_values import parameters
from ..ops.fused import KernelCall
from ..schedule.context import LowerContext
from ..schedule.user_code import kernel_of


def lower_kernel_call(op: KernelCall, ctx: LowerContext) -> Module:
    """Return the module that the kernel builds for the op. Raise UserError if the kernel is unknown or fails."""
    computed = op.computed
    kernel = kernel_of(computed, op.kernel, ctx)
    if kernel is None:
        raise UserError(
            f"{computed.op_name} '{computed.name}': its kernel '{op.kernel}' is not known in this process; load the "
            "code that adds it (--plugin)"
        )
    buffers = parameters([x.outputs[0] for x in op.graph.inputs], computed.outputs)
    inputs = [buffers[x] for x in computed.inputs]
    return Module((kernel.function(computed, inputs, buffers[computed.outputs[0]], ctx),))
