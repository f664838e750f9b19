"""Cost of a matmul of dequantized operands in integers and in f32, by the cost models of both."""

from __future__ import annotations

import math

import numpy as np

from ...base.dims import is_known
from ...base.dtypes import F32, S8, S32, DType
from ...base.records import dataclass
from ...targets.microkernels import find_microkernel, microkernels
from ..ir.graph import Graph, Op
from ..ir.logical_tensor import LogicalTensor
from ..ops.convolution import Convolution
from ..ops.matmul import MatmulCore
from ..rewriting.groups import is_elementwise
from .context import LowerContext
from .convolution_forms import ranked_forms
from .cost import slowness
from .matmul import gemm_of
from .matmul_tile import kernel_cycles

SCALING = 3
"""Instructions per vector of sums: the correction for the zero point, the conversion and the multiplication."""


@dataclass(frozen=True)
class Account:
    """Predicted cycles of either way, for typical numbers where sizes are dynamic."""

    integers: float
    floats: float


def matmul_account(op: MatmulCore, a: DType, ctx: LowerContext) -> Account:
    """Return the account of a matmul whose left operand has bytes of type `a`."""
    return _account(op, a, matmul_cycles(op, a, S8, ctx), matmul_cycles(op, F32, F32, ctx), 0, ctx)


def matmul_cycles(op: MatmulCore, a: DType, b: DType, ctx: LowerContext) -> float:
    """Return the predicted cycles of a matmul with operands of other dtypes, infinite where nothing multiplies them."""
    kernels = microkernels(a, b, ctx.target, tiles=is_known(*op.sizes[1:]))
    return min((kernel_cycles(gemm_of(op, x, ctx)) for x in kernels), default=math.inf)


def convolution_account(
    op: Convolution, x: DType, ctx: LowerContext, is_exact: bool = False
) -> Account:
    """Return the account of a convolution of an image of bytes of type `x`: the best form of either; with `is_exact`,
    the best without rounding errors."""
    integers = best_form_cycles(op, x, S8, ctx)
    floats = best_form_cycles(op, F32, F32, ctx, is_exact)
    return _account(op, x, integers, floats, 2 * F32.size if _is_quantized(op) else 0, ctx)


def _account(
    op: MatmulCore | Convolution,
    x: DType,
    integers: float,
    floats: float,
    rounded: int,
    ctx: LowerContext,
) -> Account:
    """Return the account of cycles in which integers are scaled, and elements of type `x` become floats; `rounded`:
    bytes that are moved of each result."""
    machine, sums = ctx.target.machine, op.outputs[0].details.typical.elements
    scaling = sums * SCALING / (ctx.target.lanes(S32) * machine.fma_per_cycle)
    moved = op.inputs[0].details.typical.elements * (F32.size + x.size) + sums * rounded
    return Account(integers + scaling, floats + moved / machine.copy_bytes_per_cycle)


def _is_quantized(op: Convolution) -> bool:
    """Return whether the result becomes bytes: of f32, which is stored where partial sums are kept, by a loop of
    its own."""
    pending, seen = [op.outputs[0]], set[Op]()
    while pending:
        users = {user for _, user in pending.pop().uses} - seen
        if any(user.op_name == "quantize" for user in users):
            return True
        seen |= users
        pending += [user.outputs[0] for user in users if is_elementwise(user)]
    return False


def best_form_cycles(
    op: Convolution, x: DType, w: DType, ctx: LowerContext, is_exact: bool = False
) -> float:
    """The predicted cycles of the same convolution of other types, infinite where no template runs it."""
    graph = Graph("form")
    image = graph.make_input(LogicalTensor(x, op.x.details.typical.plain_dims))
    weights = graph.make_constant(np.zeros(op.w.details.plain_dims, w.numpy))
    kept = {key: value for key, value in op.attrs.items() if key != "dtype"}
    attrs = kept if x == F32 else {**kept, "dtype": F32 if x.is_float else S32}
    twin = graph.make("convolution", [image, weights], attrs)
    assert isinstance(twin, Convolution)
    forms = ranked_forms(twin, ctx, around=op)
    ranked = [pair for pair in forms if pair[0].price == 1 or not is_exact]
    kernel = find_microkernel(x, w, ctx.target)
    if not ranked or kernel is None:
        return math.inf
    form, cycles = ranked[0]
    return cycles if form.name == "depthwise" else cycles * slowness(kernel, ctx.target)
