"""Multiply bytes as bytes: s32 matmuls of widened operands become dot products of 8-bit integers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from ...base.dtypes import S8, S32, U8
from ...targets.isa import Target
from ...targets.microkernels import microkernel
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.contraction_types import is_byte
from ..ops.convolution import Convolution
from ..ops.matmul import MatmulCore
from ..ops.window import padded
from ..rewriting.byte_operands import ByteOperand, byte_operand, fits_type
from ..rewriting.rewrite import Rule, rewrite
from ..rewriting.values import uniform_value
from ..schedule.context import LowerContext


def narrow_integer_matmuls(graph: Graph, ctx: LowerContext) -> bool:
    """Take zero points out of integer matmuls, whose operands are bytes then.

    %y = matmul_core(sub(cast(%a), %za), sub(cast(%b), %zb))                          all s32
    ->
    %y = matmul_core(%a, %b, dtype=s32) - %za * (sums of columns of %b - k * %zb) - %zb * sums of rows of %a

    Convolutions likewise; their padding is the zero point then. Corrections of constants are computed at compile time.
    All of it wraps as the matmul does, so results are the same.
    Requires: topological order. Ensures: topological order.
    """
    rules = {
        "matmul_core": (_whole(partial(_matmul, ctx.target)),),
        "convolution": (_whole(partial(_convolution, ctx.target)),),
        "add": (_one_correction,),
    }
    return rewrite(graph, rules)


def _one_correction(graph: Graph, op: Op) -> GraphTensor | None:
    """(sums - correction) + bias as sums + (bias - correction), which constants make a constant: s32 wraps."""
    corrected, bias = op.inputs[0].producer_owner, op.inputs[1]
    if corrected.op_name != "sub" or bias.details.dtype != S32:
        return None
    sums, correction = corrected.inputs
    is_contraction = isinstance(sums.producer_owner, MatmulCore | Convolution)
    known = is_contraction and _is_known(bias) and _is_known(correction)
    if not known or len(corrected.outputs[0].uses) > 1:
        return None
    make = Composer(graph, op)
    return make("add", sums, make("sub", bias, correction))


def _is_known(tensor: GraphTensor, most: int = 16) -> bool:
    """Return whether `fold_constants` will make it a constant."""
    pending = [tensor]
    for _ in range(most):
        if not pending:
            return True
        op = pending.pop().producer_owner
        if op.is_input or not (op.inputs or op.is_constant):
            return False
        pending.extend(op.inputs)
    return not pending


def _whole(rule: Rule) -> Rule:
    """The rule, which leaves no parts where it finds in the middle that it does not fit."""

    def apply(graph: Graph, op: Op) -> GraphTensor | None:
        count = len(graph.ops)
        result = rule(graph, op)
        if result is None and len(graph.ops) > count:
            graph.remove(graph.ops[count:])
        return result

    return apply


def _matmul(target: Target, graph: Graph, op: MatmulCore) -> GraphTensor | None:
    if op.outputs[0].details.dtype != S32:
        return None
    make = Composer(graph, op)
    axes = (-2 if op.transpose_a else -1,), (-1 if op.transpose_b else -2,)
    a, b = _operands(make, op, axes)
    if a is None or b is None:
        return None
    a, b = _by_rows(make, a, op.transpose_a), b.signed(make)
    if _prefers_unsigned(target, op):
        a = a.unsigned(make)
    if op.dtype is not None and (a.bytes, b.bytes) == tuple(op.inputs):
        return None
    b = _zero_by_columns(make, b, op.transpose_b)
    attrs = {"transpose_b": op.transpose_b, "dtype": S32}
    return _corrected(make, op, make("matmul_core", a.bytes, b.bytes, **attrs), a, b)


def _operands(
    make: Composer, op: MatmulCore | Convolution, axes: tuple[tuple[int, ...], tuple[int, ...]]
) -> tuple[ByteOperand | None, ByteOperand | None]:
    """Return both operands as bytes, with zero points that are constant along the contracted axes."""
    if op.dtype is not None:
        given = [ByteOperand(x, None) if is_byte(x.details.dtype) else None for x in op.inputs]
        return given[0], given[1]
    a = byte_operand(make, op.inputs[0], axes[0])
    return a, byte_operand(make, op.inputs[1], axes[1]) if a else None


def _prefers_unsigned(target: Target, op: Op) -> bool:
    """Return whether the CPU multiplies unsigned by signed bytes faster, and the correction is known at compile time.

    A matmul given with signed bytes keeps them, and has the schedule that was requested.
    """
    is_faster = microkernel(U8, S8, target).rate(target) > microkernel(S8, S8, target).rate(target)
    is_given = op.attr("dtype") is not None
    return is_faster and not is_given and op.inputs[1].is_constant


def _by_rows(make: Composer, a: ByteOperand, transposed: bool) -> ByteOperand:
    """The operand as [..., m, k]."""
    if not transposed:
        return a
    zero = a.zero
    if zero is not None and zero.details.rank > 1:
        zero = make.swapped(zero)
    elif zero is not None and zero.details.elements != 1:
        zero = make("reshape", zero, shape=(zero.details.elements, 1))
    return ByteOperand(make.swapped(a.bytes), zero)


def _zero_by_columns(make: Composer, b: ByteOperand, transposed: bool) -> ByteOperand:
    """The operand with its zero point as [..., 1, n]."""
    if not transposed or b.zero is None or b.zero.details.rank < 2:
        return b
    return ByteOperand(b.bytes, make.swapped(b.zero))


def _corrected(
    make: Composer, op: MatmulCore, result: GraphTensor, a: ByteOperand, b: ByteOperand
) -> GraphTensor:
    """Subtract the contribution of the zero points from a matmul of bytes."""
    if a.zero is not None:
        sums = _sums(make, b.bytes, -1 if op.transpose_b else -2)
        if op.transpose_b:
            sums = make.swapped(sums)
        if b.zero is not None:
            terms = make.scalar(op.sizes[2], S32)
            sums = make("sub", sums, make("mul", b.zero, terms))
        result = make("sub", result, make("mul", a.zero, sums))
    if b.zero is not None:
        result = make("sub", result, make("mul", b.zero, _sums(make, a.bytes, -1)))
    return result


def _sums(make: Composer, x: GraphTensor, axis: int) -> GraphTensor:
    axes = (x.details.rank + axis,)
    return make("reduce_sum", make.to(x, S32), axes=axes, keep_dims=True)


def _convolution(target: Target, graph: Graph, op: Convolution) -> GraphTensor | None:
    if op.outputs[0].details.dtype != S32:
        return None
    make, rank = Composer(graph, op), op.x.details.rank
    summed = tuple(range(1 - rank, 0))
    x, w = _operands(make, op, (summed, summed))
    if x is None or w is None:
        return None
    w = w.signed(make)
    if _prefers_unsigned(target, op):
        x = x.unsigned(make)
    if op.dtype is not None and (x.bytes, w.bytes) == tuple(op.inputs):
        return None
    attrs, image = {**op.attrs, "dtype": S32}, x.bytes
    if x.zero is not None and op.window.is_padded:
        fill = uniform_value(x.zero)
        if fill is None or not fits_type(int(fill), image.details.dtype):
            return None
        image = padded(make, image, op.window, int(fill))
        attrs = {key: value for key, value in attrs.items() if key not in ("before", "after")}
    if w.zero is not None and op.groups > 1:
        return None
    y = make("convolution", image, w.bytes, **attrs)
    return _corrected_image(make, y, ByteOperand(image, x.zero), w, attrs)


def _corrected_image(
    make: Composer, y: GraphTensor, x: ByteOperand, w: ByteOperand, attrs: dict[str, Any]
) -> GraphTensor:
    """The convolution of the bytes minus what their zero points add to it."""
    outputs, *window = w.bytes.details.plain_dims
    by_output = (outputs,) + (1,) * (len(window) - 1)
    zero = w.zero
    if zero is not None and zero.details.elements != 1:
        zero = make("reshape", zero, shape=by_output)
    if x.zero is not None:
        axes = tuple(range(1, len(window) + 1))
        sums = make("reduce_sum", make.to(w.bytes, S32), axes=axes, keep_dims=False)
        sums = make("reshape", sums, shape=by_output)
        if zero is not None:
            sums = make("sub", sums, make("mul", zero, make.scalar(math.prod(window), S32)))
        y = make("sub", y, make("mul", x.zero, sums))
    if zero is not None:
        ones = make.constant(np.ones((1, *window), np.int8))
        y = make("sub", y, make("mul", zero, make("convolution", x.bytes, ones, **attrs)))
    return y
