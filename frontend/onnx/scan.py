"""Scan: a loop over the rows of some inputs. It becomes a `while`; a short one is unrolled by the graph passes."""

from __future__ import annotations

from ...base.dims import Size
from ...base.size_limits import check_equal
from ...base.size_queries import sizes_text
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.control import CountedLoop, Round
from ..correspondence.compositions.indexing import dynamic_size
from ..op_builder import OpBuilder, Value
from .branches import Captured, results_of
from .scope import Handler, NodeContext


def _scan(node: NodeContext) -> list[Value]:
    if node.opset < 9:
        raise node.unsupported("the batched form of opset 8")
    body = node.attr_graph("body")
    many = node.attr_int("num_scan_inputs")
    carried = node.count - many
    collected = len(body.output) - carried
    if not 1 <= many <= node.count or len(body.input) != node.count or collected < 0:
        raise node.rule(
            f"the body must take {node.count} inputs, num_scan_inputs of them rows, and return its state",
            f"{len(body.input)} inputs, {many} of them rows, and {len(body.output)} values",
        )
    tensors = node.tensors()
    rows, length = _rows(node, tensors[carried:])
    reverse = _flags(node, "scan_input_directions", many)
    names = [x.name for x in body.input]

    outer = Captured(node, [body])

    def step(
        build: OpBuilder, trip: GraphTensor, state: list[GraphTensor], fixed: list[GraphTensor]
    ) -> Round:
        scope = outer.scope(build.graph, fixed[many:])
        last = build.helper("sub", dynamic_size(build, length - 1), trip) if any(reverse) else trip
        indices = (last if flag else trip for flag in reverse)
        pairs = zip(fixed[:many], indices, strict=True)
        taken = [build.helper("gather", x, index, axis=0) for x, index in pairs]
        scope.values.update(zip(names, (*state, *taken), strict=True))
        results = results_of(scope, body)
        return Round(results[:carried], results[carried:])

    loop = CountedLoop(node, length, None, _flags(node, "scan_output_directions", collected))
    made = loop.make(tensors[:carried], [*rows, *outer.tensors], step)
    axes = _axes(node, "scan_output_axes", [x.details.rank for x in made[carried:]])
    placed = [_first_to(node, x, axis) for x, axis in zip(made[carried:], axes, strict=True)]
    return [*made[:carried], *placed]


def _rows(node: NodeContext, tensors: list[GraphTensor]) -> tuple[list[GraphTensor], Size]:
    """The scan inputs with the axis they are scanned along first, and its length."""
    axes = _axes(node, "scan_input_axes", [x.details.rank for x in tensors])
    rows = []
    for x, axis in zip(tensors, axes, strict=True):
        perm = (axis, *(a for a in range(x.details.rank) if a != axis))
        rows.append(x if axis == 0 else node.helper("transpose", x, perm=perm))
    lengths: list[Size] = [x.details.plain_dims[0] for x in rows]
    for length in lengths[1:]:
        check_equal(lengths[0], length)
        if length != lengths[0]:
            raise node.rule("all scan inputs must have one length", sizes_text(lengths))
    return rows, lengths[0]


def _first_to(node: NodeContext, x: GraphTensor, axis: int) -> GraphTensor:
    """X with its first axis moved to another position."""
    rest = list(range(1, x.details.rank))
    perm = (*rest[:axis], 0, *rest[axis:])
    return x if axis == 0 else node.helper("transpose", x, perm=perm)


def _axes(node: NodeContext, name: str, ranks: list[int]) -> list[int]:
    given = node.attr_ints(name, None) or (0,) * len(ranks)
    if len(given) != len(ranks):
        raise node.rule(f"{name} must give {len(ranks)} axes", str(list(given)))
    return [node.axis(axis, rank) for axis, rank in zip(given, ranks, strict=True)]


def _flags(node: NodeContext, name: str, many: int) -> list[bool]:
    given = node.attr_ints(name, None) or (0,) * many
    if len(given) != many or not set(given) <= {0, 1}:
        raise node.rule(f"{name} must be {many} times 0 or 1", str(list(given)))
    return [bool(flag) for flag in given]


HANDLERS: dict[str, Handler] = {"Scan": _scan}
