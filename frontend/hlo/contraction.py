"""dot, as an Einstein sum."""

from __future__ import annotations

from ...base.dtypes import DType
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.matmul import MatmulCore
from ..correspondence.writing import Write
from ..einsum import contract
from .frame import Value, Writer
from .scope import Handler, Step


def _dot(step: Step) -> GraphTensor:
    """Axes of both sides that are paired have the same letter."""
    if len(step.operands) > 2:
        raise step.unsupported("a sparse or scaled dot")
    x, y = step.tensors(2)
    left, right = (
        list(map(chr, range(start, start + t.details.rank))) for start, t in ((1, x), (1000, y))
    )
    batch, inner = (_paired(step, x, y, what) for what in ("batch", "contracting"))
    for side, axes in (
        ("lhs", {*batch} & {*inner}),
        ("rhs", {*batch.values()} & {*inner.values()}),
    ):
        if axes:
            raise step.fail(f"an axis of the {side} must not be batch and contracting at once")
    for i, j in (batch | inner).items():
        right[j] = left[i]
    result = [left[i] for i in batch] + [c for c in (*left, *right) if (c in left) != (c in right)]
    dtype = step.dtype if step.instruction.shape else x.details.dtype
    sizes = dict(zip((*left, *right), (*x.details.plain_dims, *y.details.plain_dims), strict=True))
    wide = computed_in(dtype)
    parts = [(step.converted(t, wide), "".join(term)) for t, term in ((x, left), (y, right))]
    return step.converted(contract(step, parts, "".join(result), sizes), dtype)


def computed_in(dtype: DType) -> DType:
    """Return the type of the operands and sums of a dot or convolution: f32 for floats of less than 16 bits."""
    return dtype.accumulator if dtype.is_float and dtype.bits < 16 else dtype


def _paired(step: Step, x: GraphTensor, y: GraphTensor, what: str) -> dict[int, int]:
    """Axes of x to those of y, of the same sizes."""
    left = step.axes(f"lhs_{what}_dims", x.details.rank, ())
    right = step.axes(f"rhs_{what}_dims", y.details.rank, ())
    sizes = [[t.details.plain_dims[i] for i in axes] for t, axes in ((x, left), (y, right))]
    if sizes[0] != sizes[1]:
        raise step.rule(f"{what} sizes must agree", f"{sizes[0]} and {sizes[1]}")
    return dict(zip(left, right, strict=True))


def _write_matmul(writer: Writer, op: MatmulCore) -> Value:
    """One dot with leading batch axes; 16-bit floats are multiplied and summed in f32."""
    out = op.outputs[0].details
    batch, wide = out.plain_dims[:-2], out.dtype.accumulator
    operands = []
    for x in writer.operands(op):
        operands.append(writer.cast(writer.broadcast(x, (*batch, *x.dims[-2:])), wide))
    rank = len(batch)
    axes = range(rank) if rank else None
    dot = writer.apply(
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
    return writer.cast(dot, out.dtype)


HANDLERS: dict[str, Handler] = {"dot": _dot}
EXPORTERS: dict[str, Write] = {"matmul_core": _write_matmul}
