"""Movement as PNNX operators: the reshape family, slices, borders."""

from __future__ import annotations

from typing import Any

from ...graph_ir.ir.graph import Op
from ..correspondence.writing import InexpressibleError
from .export import Exporter
from .export_forms import ExportFunction
from .param_value import OPEN_END


def _moved(type_name: str, param: str, attr: str) -> ExportFunction:
    """The attribute as a list; empty for a tensor without axes."""

    def export(e: Exporter, op: Op) -> str:
        value = op.attr(attr)
        if not len(value) and type_name != "Tensor.reshape":
            return e.call(op, "torch.clone")
        return e.call(op, type_name, **{param: tuple(value)})

    return export


def _concat(e: Exporter, op: Op) -> str:
    return e.call(op, "torch.cat", dim=op.axis)  # type: ignore[attr-defined]


def _slice(e: Exporter, op: Op) -> str:
    """PNNX steps are positive: axes read backwards are flipped first."""
    x = op.inputs[0].details
    dims, rank = x.plain_dims, x.rank
    steps = op.attr("steps")
    cuts = list(zip(op.attr("starts"), steps, op.attr("sizes"), strict=True))
    operand = e.operand(op.inputs[0])
    back = [axis for axis, (_, step, size) in enumerate(cuts) if step < 0 and size]
    if back:
        operand = e.append("torch.flip", op.name, [operand], x, {"dims": back})
        cuts = [
            (dims[i] - 1 - a, -s, n) if i in back else (a, s, n) for i, (a, s, n) in enumerate(cuts)
        ]
    parts = [i for i, cut in enumerate(cuts) if cut != (0, 1, dims[i])]
    if not parts and back:
        return operand
    if not rank:
        return e.call(op, "torch.clone")
    params = _slice_params(cuts, parts or [0])
    return e.append("Tensor.slice", op.name, [operand], op.outputs[0].details, params)


def _slice_params(cuts: list[tuple[int, int, int]], axes: list[int]) -> dict[str, Any]:
    starts, steps, ends = [], [], []
    for start, step, size in (cuts[axis] for axis in axes):
        starts.append(start)
        steps.append(max(step, 1))
        ends.append(start + step * (size - 1) + 1 if size else start)
    if len(axes) == 1:
        return {"dim": axes[0], "start": starts[0], "end": ends[0], "step": steps[0]}
    selects = [OPEN_END] * len(axes)
    return {"dims": axes, "starts": starts, "ends": ends, "steps": steps, "selects": selects}


def _pad(e: Exporter, op: Op) -> str:
    pairs = list(zip(op.attr("before"), op.attr("after"), strict=True))
    while len(pairs) > 1 and pairs[0] == (0, 0):
        pairs.pop(0)
    mode = op.attr("mode")
    params: dict[str, Any] = {"pad": [n for pair in reversed(pairs) for n in pair]}
    if not pairs:
        return e.call(op, "torch.clone")
    if mode == "wrap" and any(n < 0 for pair in pairs for n in pair):
        raise InexpressibleError("pad of mode wrap with negative widths")  # PyTorch crops first
    params["mode"] = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
    if mode == "constant":
        params["value"] = float(op.attr("value"))
    return e.call(op, "F.pad", **params)


EXPORTERS: dict[str, ExportFunction] = {
    "transpose": _moved("Tensor.permute", "dims", "perm"),
    "reshape": _moved("Tensor.reshape", "shape", "shape"),
    "broadcast": _moved("Tensor.expand", "sizes", "shape"),
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
}
"""Writers by op name."""
