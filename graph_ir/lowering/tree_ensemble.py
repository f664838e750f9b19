"""Derives the arguments of the template for ensembles of trees."""

from __future__ import annotations

from ...base.dtypes import F32
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Buffer, Module
from ..ir.graph import GraphTensor
from ..ir.group_values import parameters
from ..ops.tree_ensemble import GROUP, LEAVES, MaskedTrees, TreeEnsemble
from ..schedule.context import LowerContext
from ..templates.masked_trees import MaskedForest, masked_function
from ..templates.tree_ensemble import Forest, forest_function


def lower_tree_ensemble(op: TreeEnsemble, ctx: LowerContext) -> Module:
    """One function: parameters inputs, then the output."""
    flat = _buffers(op)
    function = forest_function(
        _name(op, ctx, "trees"),
        tuple(flat.values()),
        _forest(op, flat),
        ctx.options.threads,
        op.name,
    )
    return Module((function,))


def lower_masked_trees(op: MaskedTrees, ctx: LowerContext) -> Module:
    """One function: parameters inputs, then the output."""
    flat = _buffers(op)
    forest = MaskedForest(
        _forest(op, flat),
        flat[op.feature],
        flat[op.bound],
        flat[op.mask],
        flat[op.begins],
        flat[op.leaves],
        op.pieces,
        LEAVES,
        op.few,
        ctx.target.lanes(F32),
    )
    function = masked_function(
        _name(op, ctx, "masked_trees"), tuple(flat.values()), forest, ctx.options.threads, op.name
    )
    return Module((function,))


def _buffers(op: TreeEnsemble) -> dict[GraphTensor, Buffer]:
    """The parameters, flat except for rows and results."""
    named = parameters(op.inputs, op.outputs)
    kept = (op.inputs[0], op.outputs[0])
    return {
        tensor: b if tensor in kept else Buffer(b.name, b.dtype, (tensor.details.elements,))
        for tensor, b in named.items()
    }


def _forest(op: TreeEnsemble, flat: dict[GraphTensor, Buffer]) -> Forest:
    return Forest(
        flat[op.x], flat[op.ways], flat[op.threshold], flat[op.values], flat[op.roots], flat[op.outputs[0]],
        op.depths, op.targets, GROUP, op.feature_bits, op.planes, op.reduction,
    )  # fmt: skip


def _name(op: TreeEnsemble, ctx: LowerContext, kind: str) -> str:
    rows, count = op.outputs[0].details.plain_dims
    sizes = f"{rows}x{len(op.depths) * GROUP}x{count}"
    return identifier(f"{op.x.details.dtype}_{kind}_{sizes}__{ctx.target.isa}", 120)
