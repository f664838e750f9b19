"""Multiply bytes as bytes: s32 products of widened operands become dot products of 8-bit integers."""

from __future__ import annotations

from functools import partial

from ...base.contraction import microkernel
from ...base.dtypes import S8, S32, U8
from ...base.target import Target
from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..ops.matmul import MatmulCore
from ..rewriting.byte_operands import ByteOperand, byte_operand
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext


def narrow_integer_products(graph: Graph, ctx: LowerContext) -> bool:
    """Take zero points out of integer products, whose operands are bytes then.

    %y = matmul_core(sub(cast(%a), %za), sub(cast(%b), %zb))                          all s32
    ->
    %y = matmul_core(%a, %b, dtype=s32) - %za * (sums of columns of %b - k * %zb) - %zb * sums of rows of %a

    Corrections of constants are computed at compile time. All of it wraps as the product does, so results are the same.
    Requires: topological order. Ensures: topological order.
    """
    return rewrite(graph, {"matmul_core": (partial(_of_bytes, ctx.target),)})


def _of_bytes(target: Target, graph: Graph, op: Op) -> GraphTensor | None:
    assert isinstance(op, MatmulCore)
    if op.outputs[0].details.dtype != S32:
        return None
    make = Composer(graph, op)
    if op.dtype is None:
        a = byte_operand(make, op.inputs[0], (-2 if op.transpose_a else -1,))
        b = byte_operand(make, op.inputs[1], (-1 if op.transpose_b else -2,)) if a else None
    elif op.transpose_a or op.inputs[1].details.dtype != S8:
        a, b = (ByteOperand(x, None) for x in op.inputs)
    else:
        return None
    if a is None or b is None:
        return None
    a, b = _by_rows(make, a, op.transpose_a), b.signed(make)
    # Where the CPU multiplies only unsigned by signed bytes, and the correction is known at compile time.
    is_faster = microkernel(U8, S8, target).rate > microkernel(S8, S8, target).rate
    if is_faster and op.inputs[1].producer_owner.op_name == "constant":
        a = a.unsigned(make)
    b = _zero_by_columns(make, b, op.transpose_b)
    attrs = {"transpose_b": op.transpose_b, "dtype": S32}
    return _corrected(make, op, make("matmul_core", a.bytes, b.bytes, **attrs), a, b)


def _by_rows(make: Composer, a: ByteOperand, transposed: bool) -> ByteOperand:
    """The operand as [..., m, k]."""
    if not transposed:
        return a
    zero = a.zero
    if zero is not None and zero.details.rank > 1:
        zero = _swapped(make, zero)
    elif zero is not None and zero.details.elements > 1:
        zero = make("reshape", zero, shape=(zero.details.elements, 1))
    return ByteOperand(_swapped(make, a.bytes), zero)


def _zero_by_columns(make: Composer, b: ByteOperand, transposed: bool) -> ByteOperand:
    """The operand with its zero point as [..., 1, n]."""
    if not transposed or b.zero is None or b.zero.details.rank < 2:
        return b
    return ByteOperand(b.bytes, _swapped(make, b.zero))


def _swapped(make: Composer, x: GraphTensor) -> GraphTensor:
    rank = x.details.rank
    return make("transpose", x, perm=(*range(rank - 2), rank - 1, rank - 2))


def _corrected(
    make: Composer, op: MatmulCore, product: GraphTensor, a: ByteOperand, b: ByteOperand
) -> GraphTensor:
    """The product of the bytes minus what their zero points add to it."""
    if a.zero is not None:
        sums = _sums(make, b.bytes, -1 if op.transpose_b else -2)
        if op.transpose_b:
            sums = _swapped(make, sums)
        if b.zero is not None:
            terms = make.scalar(op.sizes[2], S32)
            sums = make("sub", sums, make("mul", b.zero, terms))
        product = make("sub", product, make("mul", a.zero, sums))
    if b.zero is not None:
        product = make("sub", product, make("mul", b.zero, _sums(make, a.bytes, -1)))
    return product


def _sums(make: Composer, x: GraphTensor, axis: int) -> GraphTensor:
    axes = (x.details.rank + axis,)
    return make("reduce_sum", make.to(x, S32), axes=axes, keep_dims=True)
