"""Multiply the integers that dequantized operands stand for, exactly, and scale the sums."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...base.dtypes import F32, S32
from ...base.size_limits import broadcast_sizes
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.matmul import MatmulCore
from ..ops.quantize import Dequantize
from ..rewriting.decisions import record
from ..rewriting.quantized_operand import (
    FARTHEST,
    QuantizedOperand,
    quantized_operand,
    reshaped,
    swapped,
)
from ..rewriting.rewrite import Rule, rewrite
from ..rewriting.values import constant_value, constant_values
from ..schedule.context import LowerContext
from ..schedule.integer_gain import Account, convolution_account, matmul_account


def multiply_quantized(graph: Graph, ctx: LowerContext) -> bool:
    """Replace matmuls and convolutions of dequantized operands by integer ones, and their bias with them.

    %y = add(matmul_core(dequantize(%a, %sa, %za), dequantize(%b, %sb, %zb)), dequantize(%bias, %sa * %sb))
    ->
    %p = add(matmul_core(sub(cast(%a), %za), sub(cast(%b), %zb)), %bias)     all s32, exact
    %y = mul(cast(%p), %sa * %sb)                                            f32

    What the cost model predicts to be slower stays f32; so do matmuls with a K so large that accumulators might not fit
    s32, and those whose scales differ along the summed axis. Results differ by the roundings of the f32 sums that are
    gone. Requires: topological order, dequantize not decomposed. Ensures: topological order.
    """
    rules: dict[str, tuple[Rule, ...]] = {
        "matmul_core": (partial(_matmul, ctx),),
        "convolution": (partial(_convolution, ctx),),
        "add": (_bias,),
    }
    return rewrite(graph, rules)


def _matmul(ctx: LowerContext, graph: Graph, op: MatmulCore) -> GraphTensor | None:
    a, b = map(quantized_operand, op.inputs)
    if a is None or b is None or op.sizes[2] * FARTHEST**2 >= 1 << 31:
        return None
    if a.varies(-2 if op.transpose_a else -1) or b.varies(-1 if op.transpose_b else -2):
        return None
    if not _gains(graph, op, matmul_account(op, a.bytes.details.dtype, ctx)):
        return None
    make = Composer(graph, op)
    integers = make("matmul_core", a.centered(make), b.centered(make), **op.attrs)
    scales = [
        swapped(make, x.scale) if is_swapped else x.scale
        for x, is_swapped in ((a, op.transpose_a), (b, op.transpose_b))
    ]
    return make("mul", make.to(integers, F32), make.folded("mul", *scales))


def _convolution(ctx: LowerContext, graph: Graph, op: Convolution) -> GraphTensor | None:
    x, w = map(quantized_operand, op.inputs)
    if x is None or w is None or np.prod(op.weight_dims(op.w.details)[1:]) * FARTHEST**2 >= 1 << 31:
        return None
    rank = op.x.details.rank
    if any(x.varies(-axis) for axis in range(1, rank + 1)):
        return None
    if any(w.varies(-axis) for axis in range(1, rank)):
        return None
    if not _gains(graph, op, convolution_account(op, x.bytes.details.dtype, ctx, True)):
        return None
    make = Composer(graph, op)
    x = _flat_zero(make, x)
    integers = make("convolution", x.centered(make), w.centered(make), **op.attrs)
    outputs = w.scale.details.elements
    by_output = (outputs,) + (1,) * (rank - 2) if outputs > 1 else ()
    scales = reshaped(make, x.scale, ()), reshaped(make, w.scale, by_output)
    return make("mul", make.to(integers, F32), make.folded("mul", *scales))


def _flat_zero(make: Composer, x: QuantizedOperand) -> QuantizedOperand:
    zero = None if x.zero is None else reshaped(make, x.zero, ())
    return QuantizedOperand(x.bytes, x.scale, zero)


def _gains(graph: Graph, op: Op, account: Account) -> bool:
    """Return whether integers are faster; says so in the log either way."""
    text = f"{account.integers:.3g} predicted cycles in integers, {account.floats:.3g} in f32"
    is_faster = account.integers < account.floats
    record(graph, "form", [op.name], [], f"{'integers' if is_faster else 'stays f32'}: {text}")
    return is_faster


def _bias(graph: Graph, op: Op) -> GraphTensor | None:
    """A bias of the scale of the sums is added to them."""
    for scaled, other in (op.inputs, op.inputs[::-1]):
        found = _scaled_sums(scaled)
        bias = other.producer_owner
        if found is None or not isinstance(bias, Dequantize) or bias.x.details.dtype != S32:
            continue
        sums, scale = found
        known = constant_values((bias.x, scale, bias.scale))
        if known is None or not _is_zero(bias.zero_point):
            continue
        value, own, others = known
        fits = np.abs(value.astype(np.int64)).max(initial=0) < 1 << 30
        dims = other.details.plain_dims
        if fits and _same_scales(own, others, dims, op.outputs[0].details.plain_dims):
            make = Composer(graph, op)
            total = make("add", sums, bias.x)
            return make("mul", make.to(total, F32), scale)
    return None


def _scaled_sums(tensor: GraphTensor) -> tuple[GraphTensor, GraphTensor] | None:
    """Return (s32 accumulators of a matmul with few terms, scale) of a tensor that `multiply_quantized` has made."""
    op = tensor.producer_owner
    if op.op_name != "mul" or op.inputs[0].producer_owner.op_name != "cast":
        return None
    sums = op.inputs[0].producer_owner.inputs[0]
    producer = sums.producer_owner
    if not isinstance(producer, (MatmulCore, Convolution)) or sums.details.dtype != S32:
        return None
    weights = producer.inputs[1].details
    terms = (
        producer.sizes[2] if isinstance(producer, MatmulCore) else np.prod(weights.plain_dims[1:])
    )
    return (sums, op.inputs[1]) if terms * FARTHEST**2 < 1 << 30 else None


def _is_zero(zero: GraphTensor | None) -> bool:
    known = None if zero is None else constant_value(zero)
    return zero is None or (known is not None and not known.any())


def _same_scales(
    ours: np.ndarray, theirs: np.ndarray, dims: tuple[int, ...], result: tuple[int, ...]
) -> bool:
    """Return whether sums of shape `result` and a bias of shape `dims` are scaled alike."""
    bias = np.broadcast_to(theirs, dims)
    try:
        common = broadcast_sizes(ours.shape, dims)
    except ValueError:
        return False
    agree = broadcast_sizes(common, result) == result
    return agree and bool(np.all(np.broadcast_to(ours, common) == np.broadcast_to(bias, common)))
