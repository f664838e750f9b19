"""scatter and select-and-scatter: reading computes indices of whole runs of elements for the op of the Graph IR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ops.scatter import Scatter
from ..correspondence.writing import Write
from .bodies import describe, single_opcode
from .elementwise import LOGICAL
from .frame import Writer, tuple_of
from .index_map import IndexMap
from .opcodes import OPS
from .scope import Handler, Step
from .shapes import HLO_NAMES, Shape
from .syntax import Computation
from .values import fits
from .windows import Windows, positions_of, windows_of


def _scatter(step: Step) -> Any:
    step.count(3, -1)
    count = len(step.operands) // 2
    if len(step.operands) % 2 == 0:
        raise step.rule("it must have an odd number of operands", str(len(step.operands)))
    tensors = step.tensors()
    data, updates = tensors[:count], tensors[count + 1 :]
    for x, update in zip(data, updates, strict=True):
        alike = x.details.plain_dims == step.dims(0) and update.details.dtype == x.details.dtype
        if not alike or update.details.plain_dims != updates[0].details.plain_dims:
            shapes = f"{step.shown(x)}, {step.shown(update)}"
            raise step.rule("its arrays must have one shape", shapes)
    index = IndexMap(
        step, data[0], tensors[count], "scatter_dims_to_operand_dims", "inserted_window_dims",
        "input_batching_dims", "scatter_indices_batching_dims",
    )  # fmt: skip
    order, window = _windows(step, index, tensors[count], updates[0])
    runs = _Runs(index, window)
    moved = [step.transposed(u, order) for u in updates]
    return _scattered(step, runs.flat_indices(), data, moved, "to_apply", runs.length)


def _windows(
    step: Step, index: IndexMap, indices: GraphTensor, update: GraphTensor
) -> tuple[list[int], dict[int, int]]:
    """(the axes of updates: scatter axes, then window axes; the sizes of windows by axis of the operand)."""
    sizes = update.details.plain_dims
    axes = step.axes("update_window_dims", len(sizes), ())
    found = [sizes[axis] for axis in axes]
    if len(axes) != len(index.kept) or any(
        size > index.dims[axis] for size, axis in zip(found, index.kept, strict=True)
    ):
        raise step.rule(
            f"update_window_dims must name {len(index.kept)} axes that fit axes {index.kept} of "
            f"{step.shown(step.tensor(0))}",
            f"sizes {found}",
        )
    outer = [axis for axis in range(len(sizes)) if axis not in axes]
    scattered = [sizes[axis] for axis in outer]
    if scattered != [*index.batch]:
        raise step.rule(
            f"{step.shown(indices)} must hold {len(index.mapped)} indices for each of the updates' "
            f"{scattered}",
            f"{index.entries} for each of {[*index.batch]}",
        )
    return [*outer, *axes], dict(zip(index.kept, found, strict=True))


def _scattered(
    step: Step,
    targets: GraphTensor,
    data: list[GraphTensor],
    updates: list[GraphTensor],
    name: str,
    run: int = 1,
) -> Any:
    """The scatter op with the body an attribute names: a known reduction if it is one."""
    wanted = [HLO_NAMES[x.details.dtype] for x in data]
    body, is_tuple = step.body(name, [*data, *data], wanted)
    made = step.outputs(
        "scatter", targets, *data, *updates, run=run, **_combination(step, body, data)
    )
    return tuple(made) if is_tuple else made[0]


def _combination(step: Step, body: Computation, data: list[GraphTensor]) -> dict[str, Any]:
    is_bool = data[0].details.dtype == BOOL
    if len(data) == 1 and describe(body) == "p1":
        return {"reduction": "none"}
    opcode = single_opcode(body)
    word = LOGICAL.get(opcode, OPS.get(opcode)) if is_bool else OPS.get(opcode)
    if len(data) == 1 and word:
        return {"reduction": word}
    return {"body": step.owner.scalar_graph(body)}


class _Runs:
    """The last axes of windows that lie in one piece in the operand are a run, which has one index.

    `outside` are the sizes of the other axes of windows.
    """

    def __init__(self, index: IndexMap, window: dict[int, int]) -> None:
        self.index = index
        self.window = window
        self.length = 1
        self.outside = dict(window)
        for axis in reversed(range(len(index.dims))):
            if axis not in window:
                break
            self.length *= self.outside.pop(axis)
            if window[axis] != index.dims[axis]:
                break

    def flat_indices(self) -> GraphTensor:
        """[scatter axes.., outside window axes..]: where each run starts; outside the operand with its window."""
        index, step = self.index, self.index.step
        flat_index: GraphTensor | None = None
        inside: GraphTensor | None = None
        for axis, start in index.starts():
            last = index.dims[axis] - self.window.get(axis, 1)
            if axis in index.mapped and not step.is_clamped(start, last):
                fits = step.make(
                    "and",
                    step.make("ge", start, step.constant(0)),
                    step.make("le", start, step.constant(last)),
                )
                inside = fits if inside is None else step.make("and", inside, fits)
            flat_index = index.added(flat_index, start, axis)
        flat_index = step.broadcast(
            step.constant(0) if flat_index is None else flat_index, index.batch
        )
        if inside is not None:
            outside = step.constant(-max(math.prod(index.dims), 1))
            flat_index = step.make("select", inside, flat_index, outside)
        # Offsets stay below the operand's size, so out-of-range runs remain so.
        return index.spread(flat_index, self.outside)


def _select_and_scatter(step: Step) -> GraphTensor:
    """The element selected in each window receives the source's element for that window."""
    x, source, initial = step.tensors(3)
    windows = windows_of(step, x.details.rank)
    type_ = HLO_NAMES[x.details.dtype]
    wanted = Shape(type_, positions_of(x.details.plain_dims, windows)), Shape(type_)
    if not all(map(fits, wanted, (source, initial))):
        raise step.rule(
            f"its source must be {wanted[0].logical()} and its initial value {type_}[]",
            step.shown(source, initial),
        )
    if any(w.base_dilation > 1 or w.window_dilation > 1 or w.reversal for w in windows):
        raise step.unsupported("a dilated or reversed window")
    body, _ = step.body("select", [x, x], ["pred"])
    flat_index = _selected(step, body, windows)
    start = step.broadcast(initial, x.details.plain_dims)
    result: GraphTensor = _scattered(step, flat_index, [start], [source], "scatter")
    return result


def _selected(step: Step, body: Computation, windows: Windows) -> GraphTensor:
    """Flat indices into x, -1 for a window without elements; window elements are compared sequentially."""
    x, sizes = step.tensor(0), step.dims(1)
    value: GraphTensor | None = None
    flat_index = found = step.constant(-1)
    for offsets in np.ndindex(*(w.size for w in windows)):
        candidate, here, inside = _window_element(step, x, windows, sizes, offsets)
        if value is None:
            value, flat_index, found = (
                candidate,
                step.make("select", inside, here, flat_index),
                inside,
            )
            continue
        stays = step.owner.inline_mapped(body, [value, candidate])
        better = step.make("or", step.make("not", found), step.make("not", stays))
        better = step.make("and", inside, better)
        value = step.make("select", better, candidate, value)
        flat_index = step.make("select", better, here, flat_index)
        found = step.make("or", found, inside)
    return step.broadcast(flat_index, sizes)


def _window_element(
    step: Step, x: GraphTensor, windows: Windows, sizes: tuple[int, ...], offsets: tuple[int, ...]
) -> tuple[GraphTensor, GraphTensor, GraphTensor]:
    """(values, flat indices into x, whether they are inside) of one element of every window."""
    dims = x.details.plain_dims
    rank = len(dims)
    value, flat_index, inside = x, step.constant(0), step.constant(True, BOOL)
    for axis, (w, offset) in enumerate(zip(windows, offsets, strict=True)):
        at = np.arange(sizes[axis]) * w.stride + offset - w.low
        real = np.clip(at, 0, dims[axis] - 1)
        value = step.make("gather", value, step.constant(real), axis=axis)
        shape = [-1 if i == axis else 1 for i in range(rank)]
        step_size = math.prod(dims[axis + 1 :])
        flat_index = step.make("add", flat_index, step.constant((real * step_size).reshape(shape)))
        if (at != real).any():
            inside = step.make("and", inside, step.constant((at == real).reshape(shape), BOOL))
    return value, flat_index, inside


HANDLERS: dict[str, Handler] = {"scatter": _scatter, "select-and-scatter": _select_and_scatter}


def _write_scatter(writer: Writer, op: Scatter) -> None:
    """Flat arrays, one index per run; HLO drops a window that is not entirely inside, as the op does with runs."""
    count, run, details = op.count, op.run, op.outputs[0].details
    size, runs = details.elements, op.inputs[0].details.elements
    targets, *arrays = writer.operands(op)
    if not size or not runs or not run:
        return writer.bind(op, arrays)
    data = [writer.reshape(x, (size,)) for x in arrays[:count]]
    updates = [writer.reshape(x, (runs, run)) for x in arrays[count:]]
    body = op.body
    made = writer.add(
        writer.operation(
            "scatter",
            [*data, writer.reshape(writer.cast(targets, S64), (runs, 1)), *updates],
            update_window_dims=[1],
            inserted_window_dims=[],
            scatter_dims_to_operand_dims=[0],
            index_vector_dim=1,
            to_apply=writer.scalar_body(body) if body else writer.body(op.reduction, details.dtype),
        ),
        data[0].shape if count == 1 else tuple_of(data),
        "scatter",
    )
    flat = [made] if count == 1 else writer.elements(made)
    return writer.bind(op, [writer.reshape(x, details.plain_dims, op.name) for x in flat])


EXPORTERS: dict[str, Write] = {"scatter": _write_scatter}
