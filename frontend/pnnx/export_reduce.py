"""Reductions, softmax and normalisations as PNNX operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .export import Exporter, Inexpressible
from .export_forms import WORDS, ExportFunction


def _reduce(type_name: str, **extra: Any) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        axes, keep = op.axes, bool(op.attrs.get("keep_dims"))  # type: ignore[attr-defined]
        params = {**extra, "dim": axes, "keepdim": keep}
        dtype = op.inputs[0].details.dtype
        if type_name in ("torch.sum", "torch.prod") and not dtype.is_float and dtype != S64:
            params["dtype"] = WORDS[dtype.name]
        if not axes and op.inputs[0].details.rank:
            raise Inexpressible(f"{op.op_name} over no axes")
        if type_name == "torch.prod" and len(axes) > 1:
            return _product_axis_by_axis(e, op, axes, keep, params)
        if type_name == "torch.prod":
            params["dim"] = axes[0] if axes else None
        return e.call(op, type_name, **params)

    return export


def _product_axis_by_axis(
    e: Exporter, op: Op, axes: Sequence[int], keep: bool, params: dict[str, Any]
) -> str:
    """torch.prod takes one dim; the last first, so that the others keep their numbers."""
    x = op.inputs[0].details
    operand, dims = e.operand(op.inputs[0]), list(x.plain_dims)
    for axis in reversed(axes):
        dims[axis : axis + 1] = [1] if keep else []
        result = LogicalTensor(x.dtype, tuple(dims))
        operand = e.emit("torch.prod", op.name, [operand], result, {**params, "dim": axis})
    return operand


def _arg(type_name: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        if op.attrs.get("last"):
            raise Inexpressible(f"{op.op_name} of the last of equal elements")
        return e.call(op, type_name, dim=op.axis, keepdim=bool(op.attrs.get("keep_dims")))  # type: ignore[attr-defined]

    return export


def _softmax(type_name: str) -> ExportFunction:
    return lambda e, op: e.call(op, type_name, dim=op.axis)  # type: ignore[attr-defined]


def _over_last_axes(type_name: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        dims = op.inputs[0].details.plain_dims[op.axes[0] :]  # type: ignore[attr-defined]
        params = {"normalized_shape": dims, "eps": op.epsilon}  # type: ignore[attr-defined]
        operands = [e.operand(op.inputs[0]), *(_expanded(e, op, x, dims) for x in op.inputs[1:])]
        keys = ("input", "weight", "bias")
        return e.emit(type_name, op.name, operands, op.outputs[0].details, params, keys)

    return export


def _expanded(e: Exporter, op: Op, x: GraphTensor, dims: tuple[int, ...]) -> str:
    if x.details.plain_dims == dims:
        return e.operand(x)
    whole = LogicalTensor(x.details.dtype, dims)
    if x.details.rank > len(dims):
        raise Inexpressible(f"{op.op_name} with parameters of {x.details}")
    return e.emit("Tensor.expand", f"{op.name}.expand", [e.operand(x)], whole, {"sizes": dims})


def _per_channel(type_name: str, **attrs: str) -> ExportFunction:
    def export(e: Exporter, op: Op) -> str:
        params = {name: op.attrs.get(attr, 1) for name, attr in attrs.items()}
        return e.call(op, type_name, "input", "weight", "bias", eps=op.epsilon, **params)  # type: ignore[attr-defined]

    return export


def _batch_norm(e: Exporter, op: Op) -> str:
    if op.axis != 1:  # type: ignore[attr-defined]
        raise Inexpressible("batch_norm of another axis than 1")
    x, scale, bias, mean, variance = map(e.operand, op.inputs)
    keys = ("input", "running_mean", "running_var", "weight", "bias")
    params = {"eps": op.epsilon, "training": False}  # type: ignore[attr-defined]
    return e.emit(
        "F.batch_norm",
        op.name,
        [x, mean, variance, scale, bias],
        op.outputs[0].details,
        params,
        keys,
    )


EXPORTERS: dict[str, ExportFunction] = {
    "reduce_sum": _reduce("torch.sum"),
    "reduce_mean": _reduce("torch.mean"),
    "reduce_max": _reduce("torch.amax"),
    "reduce_min": _reduce("torch.amin"),
    "reduce_prod": _reduce("torch.prod"),
    "reduce_any": _reduce("torch.any"),
    "reduce_all": _reduce("torch.all"),
    "reduce_l1": _reduce("torch.norm", p=1),
    "reduce_l2": _reduce("torch.norm", p=2),
    "reduce_log_sum_exp": _reduce("torch.logsumexp"),
    "arg_max": _arg("torch.argmax"),
    "arg_min": _arg("torch.argmin"),
    "softmax": _softmax("F.softmax"),
    "log_softmax": _softmax("F.log_softmax"),
    "layer_norm": _over_last_axes("F.layer_norm"),
    "rms_norm": _over_last_axes("F.rms_norm"),
    "group_norm": _per_channel("F.group_norm", num_groups="groups"),
    "instance_norm": _per_channel("F.instance_norm"),
    "batch_norm": _batch_norm,
}
"""Graph op to its writer."""
