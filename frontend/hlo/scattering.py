"""scatter and select-and-scatter: computes indices of whole runs of elements for the scatter of the Graph IR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import GraphTensor
from .bodies import describe, single_opcode
from .elementwise import LOGICAL
from .indexing import index_rows
from .scope import Handler, Step
from .syntax import Computation, WindowDimension

_REDUCTIONS = {
    "add": "add", "multiply": "mul", "maximum": "max", "minimum": "min", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip


def _scatter(step: Step) -> Any:
    count = len(step.operands) // 2
    tensors = step.tensors()
    data, updates = tensors[:count], tensors[count + 1 :]
    target = _Target(step, data[0], updates[0])
    moved = [step.transposed(u, target.order) for u in updates]
    return _scattered(step, target.places(tensors[count]), data, moved, "to_apply", target.run)


def _scattered(
    step: Step,
    places: GraphTensor,
    data: list[GraphTensor],
    updates: list[GraphTensor],
    body: str,
    run: int = 1,
) -> Any:
    """The scatter op with the body an attribute names: a known reduction if it is one."""
    attrs = _combination(step, step.computation(body), data)
    name = step.instruction.name
    made = step.graph.make("scatter", [places, *data, *updates], {"run": run, **attrs}, name)
    return tuple(made.outputs) if step.shape.is_tuple else made.outputs[0]


def _combination(step: Step, body: Computation, data: list[GraphTensor]) -> dict[str, Any]:
    is_bool = data[0].details.dtype == BOOL
    if len(data) == 1 and describe(body) == "p1":
        return {"reduction": "none"}
    opcode = single_opcode(body)
    word = _REDUCTIONS.get(LOGICAL.get(opcode, opcode) if is_bool else opcode)
    if len(data) == 1 and word:
        return {"reduction": word}
    return {"body": step.owner.scalar_graph(body)}


class _Target:
    """The targets of a scatter's updates: windows over the operand that start at given indices.

    `order` brings the updates' axes into the order scatter axes, window axes; the last window axes that lie in one
    piece in the operand make up a `run`.
    """

    def __init__(self, step: Step, data: GraphTensor, updates: GraphTensor) -> None:
        self.step = step
        self.dims, sizes = data.details.plain_dims, updates.details.plain_dims
        self.batching: tuple[int, ...] = step.attribute("input_batching_dims", ())
        window_axes: tuple[int, ...] = step.attribute("update_window_dims", ())
        inserted: tuple[int, ...] = step.attribute("inserted_window_dims", ())
        self.mapped: tuple[int, ...] = step.attribute("scatter_dims_to_operand_dims", ())
        outer = [axis for axis in range(len(sizes)) if axis not in window_axes]
        self.order = (*outer, *window_axes)
        self.batch = tuple(sizes[axis] for axis in outer)
        kept = [a for a in range(len(self.dims)) if a not in (*inserted, *self.batching)]
        found = zip(kept, (sizes[axis] for axis in window_axes), strict=True)
        self.window = dict(found)
        self.run = 1
        self.outside = list(kept)  # window axes outside the runs
        for axis in reversed(range(len(self.dims))):
            if axis not in self.window:
                break
            self.run *= self.window[axis]
            self.outside.remove(axis)
            if self.window[axis] != self.dims[axis]:
                break

    def places(self, indices: GraphTensor) -> GraphTensor:
        """[scatter axes.., outside window axes..]: where each run starts; outside the operand with its window."""
        step, rank = self.step, len(self.batch)
        total = math.prod(self.dims)
        rows, _ = index_rows(step, indices)
        place, inside = step.broadcast(step.constant(0), self.batch), None
        for number, axis in enumerate(self.mapped):
            start = step.reshaped(step.strided(rows, rank, number, 1, 1), self.batch)
            last = self.dims[axis] - self.window.get(axis, 1)
            if not step.is_clamped(start, last):
                fits = step.make(
                    "and",
                    step.make("ge", start, step.constant(0)),
                    step.make("le", start, step.constant(last)),
                )
                inside = fits if inside is None else step.make("and", inside, fits)
            place = step.make("add", place, self._scaled(start, axis))
        for number, axis in enumerate(self.batching):
            place = step.make("add", place, self._scaled(self._batch_positions(number), axis))
        if inside is not None:
            place = step.make("select", inside, place, step.constant(-max(total, 1)))
        return self._spread(place)

    def _scaled(self, start: GraphTensor, axis: int) -> GraphTensor:
        stride = math.prod(self.dims[axis + 1 :])
        return self.step.make("mul", start, self.step.constant(stride)) if stride != 1 else start

    def _batch_positions(self, number: int) -> GraphTensor:
        """Along the scatter axis that goes with batching axis `number`."""
        vector = self.step.attribute("index_vector_dim")
        source = self.step.attribute("scatter_indices_batching_dims")[number]
        axis = source - (source > vector)
        return self.step.positions(axis, len(self.batch), self.batch[axis])

    def _spread(self, place: GraphTensor) -> GraphTensor:
        """An index for each run of each window. Offsets stay below the operand's size, so out-of-range runs remain
        so."""
        step, rank = self.step, len(self.batch) + len(self.outside)
        place = step.reshaped(place, (*self.batch, *(1 for _ in self.outside)))
        for number, axis in enumerate(self.outside):
            offset = step.positions(len(self.batch) + number, rank, self.window[axis])
            place = step.make("add", place, self._scaled(offset, axis))
        return place


def _select_and_scatter(step: Step) -> GraphTensor:
    """The element selected in each window receives the source's element for that window."""
    x, source, initial = step.tensors()
    windows: tuple[WindowDimension, ...] = step.typed("window", tuple)
    if any(w.base_dilation > 1 or w.window_dilation > 1 or w.reversal for w in windows):
        raise step.unsupported("a dilated or reversed window")
    place = _selected(step, x, windows, source.details.plain_dims)
    start = step.broadcast(initial, x.details.plain_dims)
    result: GraphTensor = _scattered(step, place, [start], [source], "scatter")
    return result


def _selected(
    step: Step, x: GraphTensor, windows: tuple[WindowDimension, ...], sizes: tuple[int, ...]
) -> GraphTensor:
    """Flat indices into x, -1 for a window without elements; window elements are compared sequentially."""
    body = step.computation("select")
    value: GraphTensor | None = None
    place = found = step.constant(-1)
    for offsets in np.ndindex(*(w.size for w in windows)):
        candidate, here, inside = _window_element(step, x, windows, sizes, offsets)
        if value is None:
            value, place, found = candidate, step.make("select", inside, here, place), inside
            continue
        stays = step.owner.inline_mapped(body, [value, candidate])
        better = step.make("or", step.make("not", found), step.make("not", stays))
        better = step.make("and", inside, better)
        value = step.make("select", better, candidate, value)
        place = step.make("select", better, here, place)
        found = step.make("or", found, inside)
    return step.broadcast(place, sizes)


def _window_element(
    step: Step,
    x: GraphTensor,
    windows: tuple[WindowDimension, ...],
    sizes: tuple[int, ...],
    offsets: tuple[int, ...],
) -> tuple[GraphTensor, GraphTensor, GraphTensor]:
    """(values, flat indices into x, whether they are inside) of one element of every window."""
    dims = x.details.plain_dims
    rank = len(dims)
    value, place, inside = x, step.constant(0), step.constant(True, BOOL)
    for axis, (w, offset) in enumerate(zip(windows, offsets, strict=True)):
        at = np.arange(sizes[axis]) * w.stride + offset - w.low
        real = np.clip(at, 0, dims[axis] - 1)
        value = step.make("gather", value, step.constant(real), axis=axis)
        shape = [-1 if i == axis else 1 for i in range(rank)]
        step_size = math.prod(dims[axis + 1 :])
        place = step.make("add", place, step.constant((real * step_size).reshape(shape)))
        if (at != real).any():
            inside = step.make("and", inside, step.constant((at == real).reshape(shape), BOOL))
    return value, place, inside


SCATTER: dict[str, Handler] = {
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
}
"""Opcode to handler."""
