"""scan: a computation applied to the slices of arrays in turn, which hands on a state and collects results."""

from __future__ import annotations

from typing import Any

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.control import CountedLoop, Round
from ..op_builder import OpBuilder
from .bodies import describe
from .elementwise import combine
from .scope import Handler, Step
from .shapes import HLO_NAMES, Shape
from .syntax import Computation
from .values import shape_of

RUNNING = {"add": "cum_sum", "multiply": "cum_prod"}
"""Opcode of a body, and the op of its running result along an axis."""


def _scan(step: Step) -> Any:
    """(collected.., state..) of a body (slices.., state..) -> (rows.., state..)."""
    tensors, carried = step.tensors(), step.attribute("num_carries")
    count = len(tensors) - carried
    if not 0 <= carried < len(tensors):
        raise step.rule("num_carries must be less than its operands", str(carried))
    arrays, state = tensors[:count], tensors[count:]
    axis = step.one_axis("dimensions", arrays[0].details.rank)
    lengths = {x.details.plain_dims[axis : axis + 1] for x in arrays}
    if len(lengths) > 1 or () in lengths:
        raise step.rule(f"its arrays must have one size on axis {axis}", step.shown(*arrays))
    body = step.computation("to_apply")
    slices = [_slice(x, axis) for x in arrays]
    step.takes("to_apply", body, [*slices, *map(shape_of, state)])
    given = step.result(body)
    rows = len(given.elements) - carried
    if not given.is_tuple or rows < 0:
        raise step.rule(
            f"to_apply must give a tuple that ends in {carried} states", given.logical()
        )
    if count == carried == 1 and step.attribute("is_associative", False):
        running = _running(step, body, arrays[0], state[0], axis)
        if running is not None:
            return running
    return _loop(step, body, [_first(step, x, axis) for x in arrays], state, axis)


def _slice(x: GraphTensor, axis: int) -> Shape:
    dims = x.details.plain_dims
    return Shape(HLO_NAMES[x.details.dtype], (*dims[:axis], *dims[axis + 1 :]))


def _first(step: Step, x: GraphTensor, axis: int) -> GraphTensor:
    """The axis moved to the front."""
    return step.transposed(x, [axis, *(i for i in range(x.details.rank) if i != axis)])


def _running(step: Step, body: Computation, x: GraphTensor, start: GraphTensor, axis: int) -> Any:
    """Match running sums and cumulative products, whose order is free; None for other bodies."""
    opcode, length = (
        describe(body).removeprefix("tuple(").partition("(")[0],
        x.details.plain_dims[axis],
    )
    forms = [f"tuple({y},{y})" for y in (f"{opcode}(p0,p1)", f"{opcode}(p1,p0)")]
    if opcode not in RUNNING or describe(body) not in forms or x.details.dtype.kind == "bool":
        return None
    if not length or start.details.dtype != x.details.dtype:
        return None
    is_reverse = step.attribute("is_reverse", False)
    sums = step.make(RUNNING[opcode], x, axis=axis, reverse=is_reverse)
    dims = x.details.plain_dims
    wide = step.reshaped(start, (*dims[:axis], 1, *dims[axis + 1 :]))
    rows = combine(step, opcode, sums, wide)
    last = step.sliced(rows, axis, 0 if is_reverse else length - 1, 1)
    return rows, step.reshaped(last, start.details.plain_dims)


def _loop(
    step: Step, body: Computation, arrays: list[GraphTensor], state: list[GraphTensor], axis: int
) -> Any:
    length, is_reverse = arrays[0].details.plain_dims[0], step.attribute("is_reverse", False)
    rows = len(step.result(body).elements) - len(state)

    def advance(
        build: OpBuilder, number: GraphTensor, own: list[GraphTensor], same: list[GraphTensor]
    ) -> Round:
        with step.owner.building(build.graph):
            index = number
            if is_reverse:
                index = build.helper("sub", build.constant(length - 1, S64), number)
            parts = [build.helper("gather", x, index, axis=0) for x in same]
            results = step.owner.inline(body, [*parts, *own])
        return Round(list(results[rows:]), results[:rows])

    loop = CountedLoop(step, length, None, [is_reverse] * rows)
    final = loop.make(state, arrays, advance)
    ends, collected = final[: len(state)], final[len(state) :]
    return (*(_last(step, x, axis) for x in collected), *ends)


def _last(step: Step, x: GraphTensor, axis: int) -> GraphTensor:
    """The first axis moved to `axis`."""
    order = list(range(1, x.details.rank))
    order.insert(axis, 0)
    return step.transposed(x, order)


HANDLERS: dict[str, Handler] = {"scan": _scan}
