"""Writes borders and slices."""

from __future__ import annotations

from typing import Any

from ...graph_ir.ir.graph import Op
from ..correspondence.writing import InexpressibleError
from ..torch_calls.movement import OPEN_END, PAD_MODES
from .export import Exporter


def _write_pad(e: Exporter, op: Op, type_name: str) -> Any:
    pairs = list(zip(op.attr("before"), op.attr("after"), strict=True))
    while len(pairs) > 1 and pairs[0] == (0, 0):
        pairs.pop(0)
    mode = op.attr("mode")
    params: dict[str, Any] = {"pad": [n for pair in reversed(pairs) for n in pair]}
    if not pairs:
        return e.call(op, "torch.clone")
    if mode == "wrap" and any(n < 0 for pair in pairs for n in pair):
        raise InexpressibleError("pad of mode wrap with negative widths")  # PyTorch crops first
    params["mode"] = next(key for key, ours in PAD_MODES.items() if ours == mode)
    if mode == "constant":
        params["value"] = float(op.attr("value"))
    return e.call(op, type_name, **params)


def _write_slice(e: Exporter, op: Op, type_name: str) -> Any:
    """PNNX steps are positive: axes read backwards are flipped first."""
    x = op.inputs[0].details
    dims = x.plain_dims
    cuts = list(zip(op.attr("starts"), op.attr("steps"), op.attr("sizes"), strict=True))
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
    if not x.rank:
        return e.call(op, "torch.clone")
    params = _slice_params(cuts, parts or [0])
    return e.append(type_name, op.name, [operand], op.outputs[0].details, params)


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


WRITES = {"pad": _write_pad, "slice": _write_slice}
