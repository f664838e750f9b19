"""Memory access of the loops of a group: contiguous along the axis that they write, or strided."""

from __future__ import annotations

from collections.abc import Iterable

from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Block, For, Let, Load, Var
from ...tensor_ir.split_loop import split_loop
from ...tensor_ir.visitor import vars_in, walk
from ..ir.group_values import GroupValues, parameters
from ..ir.op_kinds import reduction
from ..rewriting.kernel_group import KernelGroup


def reads_strided(group: KernelGroup) -> bool:
    """Return whether a pointwise group has a load that is strided in the innermost axis of its output."""
    values, index = _values(group)
    for output in group.outputs:
        values.read(output)(output.details.format.plain_index(index))
    return is_strided(values.lets, index[-1])


def has_edges(group: KernelGroup) -> bool:
    """Return whether an index of a pointwise group changes its form along the innermost axis of its output."""
    values, index = _values(group)
    output = group.outputs[0].details
    if not index or not isinstance(output.physical_dims[-1], int):
        return False
    stores = [
        Let(Var("value"), values.read(y)(y.details.format.plain_index(index)))
        for y in group.outputs
    ]
    loop = For(
        index[-1], t.as_expr(0), t.as_expr(output.physical_dims[-1]), Block((*values.lets, *stores))
    )
    return len(split_loop(loop)) > 1


def walks_result(group: KernelGroup) -> bool:
    """Return whether a reduction has a load that is contiguous in the innermost axis of its output."""
    values, index = _values(group)
    op, found = next((op, found) for op in group.ops if (found := reduction(op)) is not None)
    r = tuple(Var(f"r{axis}") for axis in range(len(found.extents)))
    inputs = [values.read(x) for x in op.inputs]
    plain = group.outputs[0].details.format.plain_index(index)
    values.bind(found.element(inputs, plain, r), "term")
    return bool(index) and is_contiguous(values.lets, index[-1])


def is_strided(lets: Iterable[Let], var: Var) -> bool:
    """Return whether some load is strided in `var`."""
    return any(any(var.name in vars_in(i) for i in load.indices[:-1]) for load in _loads(lets))


def is_contiguous(lets: Iterable[Let], var: Var) -> bool:
    """Return whether some load is contiguous in `var`."""
    return any(load.indices and var.name in vars_in(load.indices[-1]) for load in _loads(lets))


def _loads(lets: Iterable[Let]) -> Iterable[Load]:
    return (expr for let in lets for expr in walk(let.value) if isinstance(expr, Load))


def _values(group: KernelGroup) -> tuple[GroupValues, tuple[Var, ...]]:
    """The values of a group whose inputs are in memory, and an index into its output."""
    memory = parameters(group.inputs, group.outputs)
    values = GroupValues({x: b for x, b in memory.items() if x not in group.outputs})
    dims = group.outputs[0].details.physical_dims
    return values, tuple(Var(f"i{axis}") for axis in range(len(dims)))
