"""Derives the arguments of the template for ensembles of trees."""

from __future__ import annotations

from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Module
from ..ir.group_values import parameters
from ..ops.tree_ensemble import GROUP, TreeEnsemble
from ..schedule.context import LowerContext
from ..templates.tree_ensemble import Forest, forest_function


def lower_tree_ensemble(op: TreeEnsemble, ctx: LowerContext) -> Module:
    """One function: parameters inputs, then the output."""
    named = parameters(op.inputs, op.outputs)
    x, out = op.inputs[0], op.outputs[0]
    flat = {
        tensor: b if tensor in (x, out) else Buffer(b.name, b.dtype, (tensor.details.elements,))
        for tensor, b in named.items()
    }
    forest = Forest(
        flat[x], flat[op.ways], flat[op.threshold], flat[op.values],
        flat[op.roots], flat[op.missing], flat[out], op.depths, op.targets, GROUP, op.feature_bits, op.reduction,
    )  # fmt: skip
    rows, count = out.details.plain_dims
    sizes = f"{rows}x{len(op.depths) * GROUP}x{count}"
    name = identifier(f"{x.details.dtype}_trees_{sizes}__{ctx.target.isa}", 120)
    params = tuple(flat.values())
    function = forest_function(name, params, forest, ctx.options.threads, op.name)
    return Module((function,))
