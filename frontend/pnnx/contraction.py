"""Reads and writes matmuls; a module written for one also has its constants and the addition of its bias."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.compositions.contraction import linear
from ..correspondence.reading import Pair
from .export import Exporter, own_constant, value_of
from .scope import Node, Value


def _read_linear(node: Node, _: str) -> Value:
    """The sizes that a module repeats must be those of its weights."""
    weight = node.tensor_of("weight")
    dims = weight.details.plain_dims
    sizes = zip(("out_features", "in_features"), dims, strict=False)
    wanted = tuple(node.attr_int(name, size) for name, size in sizes)
    if wanted != dims:
        raise node.rule(f"weight must have shape {[*wanted]}", str(weight.details))
    return linear(node, node.tensor_of(), weight, node.optional("bias"))


def _write_matmul(e: Exporter, op: Op, type_name: str) -> str:
    """nn.Linear if it owns its weights, F.linear, torch.matmul."""
    a, b = op.inputs
    if id(b.producer_owner) in e.absorbed:
        return _write_module(e, op)
    result, left, right = op.outputs[0].details, e.operand(a), e.operand(b)
    if op.attr("transpose_a"):
        left = _swapped(e, op, a)
    if op.attr("transpose_b"):
        if b.details.rank == 2:
            return e.append("F.linear", op.name, [left, right], result, keys=("input", "weight"))
        right = _swapped(e, op, b)
    return e.append(type_name, op.name, [left, right], result)


def _write_module(e: Exporter, op: Op) -> str:
    x, weight = op.inputs
    bias = e.biases.get(id(op))
    out_features, in_features = weight.details.plain_dims
    weights = {} if bias is None else {"bias": value_of(bias)}
    weights["weight"] = value_of(weight)
    params = {"bias": bias is not None, "in_features": in_features, "out_features": out_features}
    result = op.outputs[0].details
    return e.append("nn.Linear", op.name, [e.operand(x)], result, params, weights=weights)


def _swapped(e: Exporter, op: Op, x: GraphTensor) -> str:
    *batch, rows, columns = x.details.plain_dims
    params = {"dim0": -2, "dim1": -1}
    dims = (*batch, columns, rows)
    return e.part(op, "transpose", "torch.transpose", [e.operand(x)], dims, params)


# Constants and additions that are part of a module.


def absorb_parts(e: Exporter) -> None:
    """Mark the ops covered by another op's operator.

    nn.Linear and nn.Conv*: constant weights, and the matmul if a constant bias is added. F.prelu: the reshape of
    its vector of slopes.
    """
    for op in e.graph.ops:
        if op.op_name == "reshape" and _is_slope(op):
            e.absorbed.add(id(op))
        if _owns_weight(op):
            e.absorbed.add(id(op.inputs[1].producer_owner))
            _absorb_bias(e, op)


def _is_slope(op: Op) -> bool:
    users = [(index, user.op_name) for index, user in op.outputs[0].uses]
    return users == [(1, "prelu")] and op.inputs[0].details.rank == 1


def _owns_weight(op: Op) -> bool:
    if op.op_name == "matmul_core":
        is_linear = op.attr("transpose_b") and not op.attr("transpose_a")
        return is_linear and own_constant(op.inputs[1], 2)
    if op.op_name not in ("convolution", "convolution_transpose"):
        return False
    return own_constant(op.inputs[1], op.inputs[1].details.rank)


def _absorb_bias(e: Exporter, layer: Op) -> None:
    """Mark a matmul without other consumers to which a constant vector, one element per channel, is added."""
    (y,) = layer.outputs
    users = [user for index, user in y.uses if index == 0 and user.op_name == "add"]
    if len(y.uses) != 1 or not users:
        return
    (add,) = users
    bias, parts = add.inputs[1], [layer]
    size = y.details.plain_dims[-1]
    if layer.op_name != "matmul_core":  # the vector is a column of channels
        size, shaped = y.details.plain_dims[1], bias.producer_owner
        column = (size, *(1,) * (y.details.rank - 2))
        if shaped.op_name != "reshape" or bias.details.plain_dims != column or len(bias.uses) != 1:
            return
        bias, parts = shaped.inputs[0], [layer, shaped]
    if own_constant(bias, 1) and bias.details.plain_dims == (size,):
        e.biases[id(layer)] = bias
        e.absorbed.update(id(part) for part in (*parts, bias.producer_owner))


PAIRS = {"linear": Pair(_read_linear)}
"""Functions that read what only this format writes so, by the name after `by`."""

WRITES = {"matmul": _write_matmul}
