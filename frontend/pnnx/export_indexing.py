"""Writes indexing and ordering as PNNX operators: gather, scatter, top_k, scans."""

from __future__ import annotations

from ...base.dtypes import S32, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.writing import InexpressibleError
from .export import WORDS, Exporter
from .export_forms import ExportFunction


def _gather(e: Exporter, op: Op) -> str:
    x, index = op.inputs
    ids = e.operand(index)
    if index.details.dtype not in (S32, S64):
        wide = LogicalTensor(S64, index.details.plain_dims)
        ids = e.append("Tensor.to", f"{op.name}.to", [ids], wide, {"dtype": "torch.long"})
    axis, result = op.axis, op.outputs[0].details  # type: ignore[attr-defined]
    if index.details.rank == 1:
        keys = ("input", "index")
        return e.append(
            "torch.index_select", op.name, [e.operand(x), ids], result, {"dim": axis}, keys
        )
    if x.details.rank == 2 and axis == 0:
        return e.append(
            "F.embedding", op.name, [ids, e.operand(x)], result, keys=("input", "weight")
        )
    items = ["None"] * axis + ["@0"]
    params = {"expr": f"[{','.join(items)}]"}
    return e.append("Tensor.index", op.name, [e.operand(x), ids], result, params)


def _places(e: Exporter, op: Op, index: GraphTensor) -> str:
    """Indices as s64, the type PyTorch requires."""
    if index.details.dtype == S64:
        return e.operand(index)
    wide = LogicalTensor(S64, index.details.plain_dims)
    return e.append("Tensor.to", f"{op.name}.to", [e.operand(index)], wide, {"dtype": "torch.long"})


def _gather_elements(e: Exporter, op: Op) -> str:
    x, index = op.inputs
    operands = [e.operand(x), _places(e, op, index)]
    result, params = op.outputs[0].details, {"dim": op.axis}  # type: ignore[attr-defined]
    return e.append("torch.gather", op.name, operands, result, params, ("input", "index"))


_SCATTERS = {
    "none": ("torch.scatter", {}),
    "add": ("torch.scatter_add", {}),
    "mul": ("torch.scatter_reduce", {"reduce": "prod"}),
    "min": ("torch.scatter_reduce", {"reduce": "amin"}),
    "max": ("torch.scatter_reduce", {"reduce": "amax"}),
}


def _scatter_elements(e: Exporter, op: Op) -> str:
    x, index, updates = op.inputs
    type_name, extra = _SCATTERS[op.reduction]  # type: ignore[attr-defined]
    params = {"dim": op.axis, **extra}  # type: ignore[attr-defined]
    operands = [e.operand(x), _places(e, op, index), e.operand(updates)]
    keys = ("input", "index", "src")
    return e.append(type_name, op.name, operands, op.outputs[0].details, params, keys)


def _top_k(e: Exporter, op: Op) -> tuple[str, ...]:
    params = {"k": op.k, "dim": op.axis, "largest": op.largest, "sorted": True}  # type: ignore[attr-defined]
    results = [y.details for y in op.outputs]
    return e.append_several("torch.topk", op.name, [e.operand(op.inputs[0])], results, params)


def _running(type_name: str) -> ExportFunction:
    """A reverse scan: the input and the result are flipped."""

    def export(e: Exporter, op: Op) -> str:
        if op.attr("exclusive"):
            raise InexpressibleError(f"{op.op_name} that leaves the element itself out")
        x = op.inputs[0].details
        operand, axis = e.operand(op.inputs[0]), op.axis  # type: ignore[attr-defined]
        params = {"dim": axis}
        if not x.dtype.is_float and x.dtype != S64:
            params["dtype"] = WORDS[x.dtype.name]
        if not op.attr("reverse"):
            return e.append(type_name, op.name, [operand], x, params)
        turn = {"dims": (axis,)}
        turned = e.append("torch.flip", f"{op.name}.flip", [operand], x, turn)
        total = e.append(type_name, op.name, [turned], x, params)
        return e.append("torch.flip", f"{op.name}.back", [total], x, turn)

    return export


EXPORTERS: dict[str, ExportFunction] = {
    "gather": _gather,
    "gather_elements": _gather_elements,
    "scatter_elements": _scatter_elements,
    "top_k": _top_k,
    "cum_sum": _running("torch.cumsum"),
    "cum_prod": _running("torch.cumprod"),
}
"""Writers by op name."""
