"""The loop of an in-place update: it writes the box into memory that already holds the rest."""

from __future__ import annotations

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, LoopKind, Module
from ...tensor_ir.sizes import shape_of
from ..ops.update_slice import UpdateInPlace, box_begins
from ..schedule.context import LowerContext


def lower_update_in_place(op: UpdateInPlace, ctx: LowerContext) -> Module:
    """A loop over the update that stores to the result."""
    operands = {
        x: Buffer(f"x{i}", x.details.dtype, shape_of(x.details.physical_dims))
        for i, x in enumerate(dict.fromkeys(op.inputs))
    }
    details = op.outputs[0].details
    result = Buffer("y", details.dtype, shape_of(details.physical_dims))
    update = operands[op.inputs[1]]
    b = t.LoopBuilder()
    starts = [operands[x].__getitem__ for x in op.inputs[2:]]
    depth = int(any(x.details.rank for x in op.inputs[2:]))
    begins: dict[int, Expr] = {}

    def store(index: tuple[Expr, ...]) -> None:
        axis = len(index)
        if axis == depth:
            begins.update({a: b.let("begin", x) for a, x in box_begins(op, starts, index).items()})
        if axis == len(update.shape):
            target = tuple(i + begins.get(a, t.ZERO) for a, i in enumerate(index))
            b.store(result, target, update[index])
            return
        kind: LoopKind = "vector" if axis + 1 == len(update.shape) else "serial"
        with b.loop(f"i{axis}", 0, update.shape[axis], kind) as i:
            store((*index, i))

    store(())
    dims = "x".join(map(str, op.inputs[1].details.physical_dims)) or "scalar"
    name = f"{details.dtype}_update_in_place_{dims}__{ctx.target.isa}"
    return Module((b.function(name, (*operands.values(), result), op.name),))
