"""`get_func(op, ctx)`: the Tensor IR of one op. Functions are registered by op class, so that op definitions do not
depend on lowering."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...base.errors import InternalError, UserError
from ...base.on_demand import on_demand
from ...tensor_ir.builder import SIZE_PREFIX
from ...tensor_ir.nodes import Buffer, Function, Module
from ...tensor_ir.visitor import bound_names, vars_in
from ..ir.class_table import ClassTable
from ..ir.op import Op
from ..ir.op_kinds import FusibleOp
from ..ir.registry import is_own
from ..ops.cached_attention import CachedAttention
from ..ops.cumulative import Cumulative
from ..ops.dynamic_sizes import Count, TrueIndices
from ..ops.fused import Fused, KernelCall
from ..ops.linear_algebra import MatrixOp
from ..ops.matmul import GroupedMatmul
from ..ops.regions import AlignRegions, SuppressBoxes
from ..ops.scatter import Scatter
from ..ops.top_k import SortRows
from ..ops.tree_ensemble import MaskedTrees, TreeEnsemble
from ..ops.update_slice import UpdateInPlace
from ..rewriting.kernel_group import group_of
from ..schedule.context import LowerContext
from ..schedule.spaces import schedule_of
from .lower_group import lower_group

LowerOp = Callable[[Any, LowerContext], Module]
"""(op of the class, context) -> one function, parameters inputs then outputs."""


def lower_kernel(op: Op, ctx: LowerContext) -> Module:
    """A fused group, or a fusible op alone, under its schedule; the model's pick if none was chosen."""
    return Module((lower_group(group_of(op), schedule_of(op, ctx), ctx),))


LOWERINGS = ClassTable[LowerOp](
    {
        FusibleOp: lower_kernel,
        Fused: lower_kernel,
        CachedAttention: on_demand(".cached_attention:lower_cached_attention", __package__),
        GroupedMatmul: on_demand(".grouped_matmul:lower_grouped_matmul", __package__),
        KernelCall: on_demand(".kernel_call:lower_kernel_call", __package__),
        MatrixOp: on_demand(".linear_algebra:lower_matrix_op", __package__),
        AlignRegions: on_demand(".align_regions:lower_align_regions", __package__),
        Count: on_demand(".counted:lower_count", __package__),
        TrueIndices: on_demand(".counted:lower_true_indices", __package__),
        Cumulative: on_demand(".scan:lower_scan", __package__),
        Scatter: on_demand(".scatter:lower_scatter", __package__),
        SortRows: on_demand(".sort_rows:lower_sort_rows", __package__),
        SuppressBoxes: on_demand(".suppress_boxes:lower_suppress_boxes", __package__),
        TreeEnsemble: on_demand(".tree_ensemble:lower_tree_ensemble", __package__),
        MaskedTrees: on_demand(".tree_ensemble:lower_masked_trees", __package__),
        UpdateInPlace: on_demand(".update_in_place:lower_update_in_place", __package__),
    }
)
"""Lowerings of ops to loops, by class; `@LOWERINGS.register(MyOp)` adds a function for a custom op."""


def _no_kernel(op: Op) -> UserError:
    """The error for an op of user code that nothing can run."""
    types = " and ".join(str(x.details) for x in op.inputs)
    remedy = "add one with graphc.kernel, or give graphc.ops.define a compose="
    return op.rule("a kernel must accept it", types, remedy)


def get_func(op: Op, ctx: LowerContext) -> Module:
    """Tensor IR of this op alone: one function, parameters inputs then outputs."""
    lowering = LOWERINGS.find(op)
    if lowering is None and is_own(op.op_name):
        raise InternalError(f"op '{op.op_name}' cannot be lowered")
    if lowering is None:
        raise _no_kernel(op)
    module = lowering(op, ctx)
    return replace(module, functions=tuple(map(with_sizes, module.functions)))


def with_sizes(function: Function) -> Function:
    """The function with the dynamic sizes that it uses as its last parameters."""
    buffers = [param for param in function.params if isinstance(param, Buffer)]
    shapes = [size for buffer in buffers for size in buffer.shape if not isinstance(size, int)]
    used = {name: var for part in (*shapes, function.body) for name, var in vars_in(part).items()}
    sizes = [used[name] for name in sorted(used) if name.startswith(SIZE_PREFIX)]
    bound = {*bound_names(function.body), *(param.name for param in function.params)}
    added = tuple(var for var in sizes if var.name not in bound)
    return replace(function, params=(*function.params, *added)) if added else function
