"""Random graphs with a dynamic size: the same graph, one of whose sizes is a symbol wherever it is an input's.

Attributes that hold the size, or a multiple of it, follow where the graph is one only then. What does not fit together
any more (a constant of that size, say) is no such graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base.dims import Size, Symbol, size
from ...base.errors import UnsupportedError, UserError
from ...graph_ir.ir.axis_attributes import SizesAttr
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.rewriting.known_sizes import with_sizes
from ..rebuild import rebuild

DYNAMIC = "N"
SIZES = (1, 2, 3, 5, 12, 13, 17, 64)
"""Values of the symbol besides its example size and the neighbors of that."""
MAX_SIZES = 4


def with_dynamic_size(graph: Graph, least: int = 1) -> tuple[Graph, int] | None:
    """(the graph with a size of `least` or more, the size that it had); None where no size can be dynamic."""
    count = Counter(
        one for op in graph.inputs for one in op.outputs[0].details.plain_dims if one > 1
    )
    for number, _ in count.most_common():
        try:
            found = _rebuilt(graph, number, size(Symbol(DYNAMIC, least)))
            again = with_sizes(found, {DYNAMIC: number})
        except (UserError, UnsupportedError):
            continue
        if [str(op.inputs[0].details) for op in again.outputs] == [
            str(op.inputs[0].details) for op in graph.outputs
        ]:
            return found, number
    return None


def sizes_to_try(number: int, least: int = 1) -> list[int]:
    """The size itself, 0 if it may be that, its neighbors, and others, which it chooses."""
    near = [number, *range(least, 1), number + 1, number - 1]
    start = number % len(SIZES)
    others = [*SIZES[start:], *SIZES[:start]]
    return [one for one in dict.fromkeys([*near, *others]) if one >= least][:MAX_SIZES]


def arrays_at(graph: Graph, arrays: list[Array]) -> list[Array]:
    """Arrays of the shapes of a graph's inputs, of the values that are given for other shapes."""
    return [
        np.array(np.resize(array, op.outputs[0].details.plain_dims), order="C")
        for op, array in zip(graph.inputs, arrays, strict=True)
    ]


def _rebuilt(graph: Graph, number: int, symbol: Size) -> Graph:
    """The graph with a symbol for a size. Raise UserError or UnsupportedError if that is none."""
    twin = Graph(graph.name, dict(graph.attrs))

    def made(op: Op, inputs: list[GraphTensor]) -> list[GraphTensor]:
        if not op.is_input:
            return _made(twin, op, inputs, number, symbol).outputs
        details = op.outputs[0].details
        dims = tuple(symbol if one == number else one for one in details.plain_dims)
        return [twin.make_input(type(details)(details.dtype, dims), op.name)]

    return rebuild(twin, graph.ops, {}, made)


def _made(twin: Graph, op: Op, inputs: list[GraphTensor], number: int, symbol: Size) -> Op:
    """The op with attributes that follow the symbol, if it takes them, else with its own."""
    is_dynamic = any(not x.details.is_known for x in inputs)
    for attrs in _attributes(op, number, symbol) if is_dynamic else ():
        try:
            return twin.make(op.op_name, inputs, attrs, op.name)
        except (UserError, UnsupportedError):
            continue
    return twin.make(op.op_name, inputs, dict(op.attrs), op.name)


def _attributes(op: Op, number: int, symbol: Size) -> Iterator[dict[str, Any]]:
    """Attributes with the symbol in place of the size, and of its multiples too."""
    lists = [key for key in op.attrs if isinstance(op.schema.attribute(op.op_name, key), SizesAttr)]
    for most in (1, number) if lists else ():
        attrs = dict(op.attrs)
        for key in lists:
            times = [one // number if one % number == 0 else 0 for one in op.attrs[key]]
            attrs[key] = tuple(
                count * symbol if 0 < count <= most else one
                for count, one in zip(times, op.attrs[key], strict=True)
            )
        yield attrs
