"""Normalisations as PNNX operators."""

from __future__ import annotations

from collections.abc import Callable

from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.writing import InexpressibleError
from .export import Exporter

ExportFunction = Callable[[Exporter, Op], str | tuple[str, ...]]


def _over_last_axes(type_name: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        dims = op.inputs[0].details.plain_dims[op.axes[0] :]  # type: ignore[attr-defined]
        params = {"normalized_shape": dims, "eps": op.epsilon}  # type: ignore[attr-defined]
        operands = [e.operand(op.inputs[0]), *(_expanded(e, op, x, dims) for x in op.inputs[1:])]
        keys = ("input", "weight", "bias")
        return e.append(type_name, op.name, operands, op.outputs[0].details, params, keys)

    return export


def _expanded(e: Exporter, op: Op, x: GraphTensor, dims: tuple[int, ...]) -> str:
    if x.details.plain_dims == dims:
        return e.operand(x)
    whole = LogicalTensor(x.details.dtype, dims)
    if x.details.rank > len(dims):
        raise InexpressibleError(f"{op.op_name} with parameters of {x.details}")
    return e.append("Tensor.expand", f"{op.name}.expand", [e.operand(x)], whole, {"sizes": dims})


def _per_channel(type_name: str, **attrs: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        params = {name: op.attr(attr) for name, attr in attrs.items()}
        return e.call(op, type_name, "input", "weight", "bias", eps=op.epsilon, **params)  # type: ignore[attr-defined]

    return export


def _batch_norm(e: Exporter, op: Op) -> str:
    if op.axis != 1:  # type: ignore[attr-defined]
        raise InexpressibleError("batch_norm of another axis than 1")
    x, scale, bias, mean, variance = map(e.operand, op.inputs)
    keys = ("input", "running_mean", "running_var", "weight", "bias")
    params = {"eps": op.epsilon, "training": False}  # type: ignore[attr-defined]
    return e.append(
        "F.batch_norm",
        op.name,
        [x, mean, variance, scale, bias],
        op.outputs[0].details,
        params,
        keys,
    )


EXPORTERS: dict[str, ExportFunction] = {
    "layer_norm": _over_last_axes("F.layer_norm"),
    "rms_norm": _over_last_axes("F.rms_norm"),
    "group_norm": _per_channel("F.group_norm", num_groups="groups"),
    "instance_norm": _per_channel("F.instance_norm"),
    "batch_norm": _batch_norm,
}
"""Writers by op name."""
