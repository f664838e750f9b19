"""Matrix products as PNNX operators: nn.Linear if it owns its weights, F.linear, torch.matmul."""

from __future__ import annotations

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .export import Exporter
from .export_forms import ExportFunction, own_constant, value_of
from .export_windows import biased_convolution, is_bias_add


def absorb_parts(exporter: Exporter) -> None:
    """Mark the ops covered by another op's operator.

    nn.Linear: its constants, and the product where a bias follows. F.prelu: the reshape of its vector of slopes.
    """
    for op in exporter.graph.ops:
        if op.op_name == "reshape" and _is_slope(op):
            exporter.absorbed.add(id(op))
        if not _has_own_weight(op):
            continue
        exporter.absorbed.add(id(op.inputs[1].producer_owner))
        add = _bias_add(op)
        if add is not None:
            exporter.absorbed.update((id(op), id(add.inputs[1].producer_owner)))


def _is_slope(op: Op) -> bool:
    (y,) = op.outputs
    users = [(index, user.op_name) for index, user in y.uses]
    return users == [(1, "prelu")] and op.inputs[0].details.rank == 1


def _has_own_weight(op: Op) -> bool:
    if op.op_name != "matmul_core" or op.attr("transpose_a") or not op.attr("transpose_b"):
        return False
    return own_constant(op.inputs[1], 2)


def _bias_add(product: Op) -> Op | None:
    """The op that adds a constant bias to a product without other consumers."""
    (y,) = product.outputs
    if len(y.uses) != 1:
        return None
    ((index, add),) = y.uses
    if add.op_name != "add" or index != 0 or not own_constant(add.inputs[1], 1):
        return None
    fits = add.inputs[1].details.plain_dims == y.details.plain_dims[-1:]
    return add if fits else None


def _linear(e: Exporter, product: Op, bias: GraphTensor | None, result: LogicalTensor) -> str:
    x, weight = product.inputs
    out_features, in_features = weight.details.plain_dims
    weights = {} if bias is None else {"bias": value_of(bias)}
    params = {"bias": bias is not None, "in_features": in_features, "out_features": out_features}
    weights["weight"] = value_of(weight)
    return e.append("nn.Linear", product.name, [e.operand(x)], result, params, weights=weights)


def _matmul(e: Exporter, op: Op) -> str:
    result = op.outputs[0].details
    a, b = op.inputs
    if id(b.producer_owner) in e.absorbed:
        return _linear(e, op, None, result)
    left, right = e.operand(a), e.operand(b)
    if op.attr("transpose_a"):
        left = _swapped(e, op, a)
    if op.attr("transpose_b"):
        if b.details.rank == 2:
            return e.append("F.linear", op.name, [left, right], result, keys=("input", "weight"))
        right = _swapped(e, op, b)
    return e.append("torch.matmul", op.name, [left, right], result)


def _swapped(e: Exporter, op: Op, x: GraphTensor) -> str:
    *batch, rows, columns = x.details.plain_dims
    turned = LogicalTensor(x.details.dtype, (*batch, columns, rows))
    return e.append(
        "torch.transpose", f"{op.name}.transpose", [e.operand(x)], turned, {"dim0": -2, "dim1": -1}
    )


def _add(e: Exporter, op: Op) -> str:
    product = op.inputs[0].producer_owner
    if product.op_name == "matmul_core" and id(product) in e.absorbed:
        return _linear(e, product, op.inputs[1], op.outputs[0].details)
    if is_bias_add(e, op):
        return biased_convolution(e, op)
    return e.expression(op, "or" if op.inputs[0].details.dtype == BOOL else "add")


EXPORTERS: dict[str, ExportFunction] = {
    "matmul_core": _matmul,
    "add": _add,
}
"""Writers by op name."""
