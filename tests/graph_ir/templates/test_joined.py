"""Groups that end in a concat: one nest a part, in every layout, with what is fused behind it."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.format import Format, parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.lower_graph import LoweredModel
from graphc.graph_ir.lowering.registry import get_func
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import For, Select, Store
from graphc.tensor_ir.visitor import walk, walk_statements
from support.lowered import build, check_interpreted, context, integers


def asks_which_part(lowered: LoweredModel) -> bool:
    """Return whether some element is selected from the parts."""
    bodies = [f.body for f in lowered.module.functions]
    return any(isinstance(e, Select) for body in bodies for e in walk(body))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("threads", [1, 2])
def test_parts_of_any_size_along_any_axis(axis: int, threads: int) -> None:
    shapes = {}
    for name, size in {"a": 3, "b": 0, "c": 1, "d": 17}.items():
        shapes[name] = tuple(size if i == axis else n for i, n in enumerate((5, 4, 33)))
    graph = build(shapes, lambda make, x: make("concat", *x.values(), axis=axis))
    lowered = check_interpreted(graph, context(threads=threads))
    assert len(lowered.calls) == 1 and not asks_which_part(lowered)


def test_a_part_may_come_twice() -> None:
    graph = build({"a": (2, 3)}, lambda make, x: make("concat", x["a"], x["a"], axis=1))
    check_interpreted(graph, context())


def test_what_is_fused_behind() -> None:
    def body(make, x):  # type: ignore[no-untyped-def]
        joined = make("concat", x["a"], x["b"], axis=1)
        return make("relu", make("add", joined, make("mul", x["c"], joined)))

    graph = build({"a": (4, 3), "b": (4, 5), "c": (4, 8)}, body)
    lowered = check_interpreted(graph, context())
    assert len(lowered.calls) == 1 and not asks_which_part(lowered)


def test_a_movement_behind_keeps_the_general_loop() -> None:
    def body(make, x):  # type: ignore[no-untyped-def]
        joined = make("concat", x["a"], x["b"], axis=1)
        return make("relu", make("transpose", joined, perm=(1, 0)))

    lowered = check_interpreted(build({"a": (4, 3), "b": (4, 5)}, body), context())
    assert len(lowered.calls) == 1 and asks_which_part(lowered)


@pytest.mark.parametrize(("layout", "nests"), [("NHWC", 2), ("NCHW", 2), ("NCHW4c", 1)])
def test_layouts(layout: str, nests: int) -> None:
    """If the joined axis is split into blocks, elements are selected one at a time."""
    fmt = parse_format(layout, "NCHW")
    result, value = interpreted_concat(fmt, [(2, 4, 3, 5), (2, 8, 3, 5)])
    assert result.nests == nests
    np.testing.assert_array_equal(result.array, value)


class Interpreted:
    """The plain result of one op, and how many innermost loops made it."""

    def __init__(self, array: np.ndarray, nests: int) -> None:
        self.array, self.nests = array, nests


def interpreted_concat(
    fmt: Format, shapes: list[tuple[int, ...]]
) -> tuple[Interpreted, np.ndarray]:
    graph = Graph("concat")
    parts = [graph.make_input(LogicalTensor(F32, s, fmt), f"x{i}") for i, s in enumerate(shapes)]
    op = graph.make("concat", parts, {"axis": 1})
    op.outputs[0].details = op.outputs[0].details.with_format(fmt)
    arrays = [integers(shape, i) for i, shape in enumerate(shapes)]
    whole = np.concatenate(arrays, 1)
    memory = fmt.pack(whole) * 0 + 55
    module = get_func(op, context())
    packed = [fmt.pack(array) for array in arrays]
    interpreter.run(module, module.functions[0].name, [*packed, memory])
    statements = list(walk_statements(module.functions[0].body))
    nests = sum(
        isinstance(s, For) and any(isinstance(inner, Store) for inner in walk_statements(s.body))
        and not any(isinstance(inner, For) for inner in walk_statements(s.body))
        for s in statements
    )  # fmt: skip
    return Interpreted(fmt.unpack(memory, whole.shape), nests), whole
