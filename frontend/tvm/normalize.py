"""Normalisations. Their epsilons and sizes are in no kernel's name."""

from __future__ import annotations

from ...graph_ir.ir.graph import GraphTensor
from .scope import Operator, OperatorContext


def _batch_norm(op: OperatorContext) -> list[GraphTensor]:
    """The result, and the statistics as they came."""
    parameters = [op.operand(i) for i in range(1, 5)]
    attrs = {"axis": op.integer("axis", 1), "epsilon": op.number("epsilon", 1e-5)}
    for key, neutral, place in (("scale", 1, 0), ("center", 0, 1)):
        if (op.stored or op.has(key)) and not op.flag(key, True):
            like = parameters[place].details
            filled = op.constant(neutral, like.dtype)
            parameters[place] = op.helper("broadcast", filled, shape=like.plain_dims)
    return [op.make("batch_norm", op.x, *parameters, **attrs), *parameters[2:]]


def _layer_norm(op: OperatorContext) -> GraphTensor:
    attrs = {"axis": op.integer("axis", -1), "epsilon": op.number("epsilon", 1e-5)}
    return op.make("layer_norm", *op.operands, **attrs)


def _by_channel(op_name: str) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        attrs: dict[str, float] = {"epsilon": op.number("epsilon", 1e-5)}
        if op_name == "group_norm":
            attrs["groups"] = op.integer("num_groups")
        if (op.stored or op.has("axis")) and op.axis(op.integer("axis", 1), op.x.details.rank) != 1:
            raise op.unsupported("another axis than 1")
        return op.make(op_name, *op.operands, **attrs)

    return build


def _response_norm(op: OperatorContext) -> GraphTensor:
    numbers = {"alpha": op.number("alpha", 1e-4), "beta": op.number("beta", 0.75)}
    attrs = {
        "size": op.integer("size", 5),
        "axis": op.integer("axis", 1),
        "k": op.number("bias", 2.0),
    }
    return op.make("lrn", op.x, **attrs, **numbers)


def _l2_normalize(op: OperatorContext) -> GraphTensor:
    """x / sqrt(max(sum of squares, eps)) over `axis`, all axes where it is empty."""
    axes = tuple(op.integers("axis", ())) or None
    floor = op.constant(op.number("eps"), op.x.details.dtype)
    total = op.helper("reduce_sum_square", op.x, axes=axes, keep_dims=True)
    return op.make("mul", op.x, op.helper("rsqrt", op.helper("max", total, floor)))


OPERATORS: dict[str, tuple[int, Operator]] = {
    "batch_norm": (5, _batch_norm), "nn_batch_norm": (5, _batch_norm), "nn_layer_norm": (3, _layer_norm),
    "nn_group_norm": (3, _by_channel("group_norm")), "nn_instance_norm": (3, _by_channel("instance_norm")),
    "nn_lrn": (1, _response_norm), "lrn": (1, _response_norm), "nn_l2_normalize": (1, _l2_normalize),
    "l2_normalize": (1, _l2_normalize),
}  # fmt: skip
"""Operator to the number of its operands and its meaning."""
