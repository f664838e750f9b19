"""copy: the same values in memory of their own."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import ALL, check_op, make_op, random_array, special_values
from support.graphs import graph_of
from support.lowered import context, interpret, lower


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(), (3, 5), (0, 2)])
def test_every_dtype(dtype: str, shape: tuple[int, ...]) -> None:
    x = random_array(dtype, shape)
    assert not np.shares_memory(check_op("copy", [x], expected=x), x)


@pytest.mark.parametrize("dtype", ALL)
def test_every_bit_arrives(dtype: str) -> None:
    """NaN, infinities, -0, the largest integers; from the caller's memory to the caller's."""
    x = special_values(dtype)
    graph = Graph()
    graph.make_output(graph.make_input(make_op("copy", [x]).inputs[0].details))
    result = np.ones_like(x)
    interpret(lower(graph, context()), [x], [result])
    is_nan = np.isnan(x.astype(np.float64))
    assert result[~is_nan].tobytes() == x[~is_nan].tobytes()
    assert np.isnan(result[is_nan].astype(np.float64)).all()


def test_the_format_of_a_copy_is_plain() -> None:
    graph = graph_of(
        """
        %x = Node[type=input] () -> f32[4,4]
        %r = Node[type=reorder] (inputs = (x=%x), attrs = {format: BA}) -> f32[4,4]{BA}
        return (y=%r)
        """
    )
    op = graph.make("copy", graph.ops[1].outputs)
    assert op.outputs[0].details == LogicalTensor(graph.ops[0].outputs[0].details.dtype, (4, 4))


@pytest.mark.parametrize("count", [0, 2])
def test_refused_counts(count: int) -> None:
    with pytest.raises(UserError) as error:
        make_op("copy", [np.zeros(2, np.float32)] * count)
    assert str(error.value) == f"copy 'x': inputs must be x, got {count} inputs"
