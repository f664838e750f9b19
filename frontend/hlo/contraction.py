"""dot: permutes axes into the order of a batched matrix product."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.matmul import MatmulCore
from ..correspondence.writing import Write
from .frame import Value, Writer
from .scope import Handler, Step
from .shapes import DTYPES


@dataclass(frozen=True)
class _Side:
    """An operand: its batch, contracted and other axes."""

    x: GraphTensor
    batch: tuple[int, ...]
    inner: tuple[int, ...]
    free: tuple[int, ...]

    def sizes(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of some axes."""
        return tuple(self.x.details.plain_dims[i] for i in axes)


def _dot(step: Step) -> GraphTensor:
    if len(step.operands) > 2:
        raise step.unsupported("a sparse or scaled dot")
    a, b = step.tensors(2)
    left, right = _side(step, a, "lhs"), _side(step, b, "rhs")
    for what in ("batch", "inner"):
        mine, other = (side.sizes(getattr(side, what)) for side in (left, right))
        if mine != other:
            word = "contracting" if what == "inner" else what
            raise step.rule(f"{word} sizes must agree", f"{[*mine]} and {[*other]}")
    (x, swapped_x), (y, swapped_y) = _matrix(step, left), _matrix(step, right)
    product = step.make("matmul_core", x, y, transpose_a=swapped_x, transpose_b=not swapped_y)
    return step.reshaped(
        product,
        (*left.sizes(left.batch), *left.sizes(left.free), *right.sizes(right.free)),
    )


def _side(step: Step, x: GraphTensor, side: str) -> _Side:
    rank = x.details.rank
    batch = step.axes(f"{side}_batch_dims", rank, ())
    inner = step.axes(f"{side}_contracting_dims", rank, ())
    if set(batch) & set(inner):
        raise step.fail(f"an axis of the {side} must not be batch and contracting at once")
    written = step.instruction.shape
    dtype = x.details.dtype if written is None else DTYPES[written.type]
    free = tuple(i for i in range(rank) if i not in batch and i not in inner)
    return _Side(step.converted(x, dtype), batch, inner, free)


def _matrix(step: Step, side: _Side) -> tuple[GraphTensor, bool]:
    """[batch.., free, contracted], or with the last two swapped where the flag is set."""
    # Leading contracted axes stay there: the product also reads transposed matrices.
    swapped_order = (*side.batch, *side.inner, *side.free)
    in_order = swapped_order == tuple(range(side.x.details.rank))
    swapped = in_order and bool(side.free) and bool(side.inner)
    order = swapped_order if swapped else (*side.batch, *side.free, *side.inner)
    sizes = [math.prod(side.sizes(axes)) for axes in (side.free, side.inner)]
    moved = step.transposed(side.x, order)
    return step.reshaped(
        moved, (*side.sizes(side.batch), *(sizes[::-1] if swapped else sizes))
    ), swapped


HANDLERS: dict[str, Handler] = {"dot": _dot}


def _write_product(writer: Writer, op: MatmulCore) -> Value:
    """One dot with leading batch axes; 16-bit floats are multiplied and summed in f32."""
    out = op.outputs[0].details
    batch, wide = out.plain_dims[:-2], out.dtype.accumulator
    operands = []
    for x in writer.operands(op):
        operands.append(writer.cast(writer.broadcast(x, (*batch, *x.dims[-2:])), wide))
    rank = len(batch)
    axes = range(rank) if rank else None
    product = writer.apply(
        "dot",
        operands,
        wide,
        out.plain_dims,
        op.name,
        lhs_batch_dims=axes,
        lhs_contracting_dims=[rank if op.transpose_a else rank + 1],
        rhs_batch_dims=axes,
        rhs_contracting_dims=[rank + 1 if op.transpose_b else rank],
    )
    return writer.cast(product, out.dtype)


EXPORTERS: dict[str, Write] = {"matmul_core": _write_product}
