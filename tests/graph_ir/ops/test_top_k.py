import numpy as np
import pytest

from graphc import compile
from graphc.base.dtypes import from_numpy
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.op_kinds import CompositeOp
from support.check_op import ALL, make_op, random_array


def ordered(row, k, largest):
    """NaN above all, the lowest index first among equals."""
    sign = -1 if largest else 1
    values = row.astype(np.float64)
    keys = [
        (sign * bool(np.isnan(v)), 0 if np.isnan(v) else sign * v, i) for i, v in enumerate(values)
    ]
    return [i for _, _, i in sorted(keys)[:k]]


def check(x, k, axis=-1, largest=True):
    """Reference against a sort of tuples, decomposition against the reference."""
    attrs = {"k": k, "axis": axis, "largest": largest}
    op = make_op("top_k", [x], attrs)
    values, indices = op.reference([x])
    count = x.size // x.shape[axis] if x.size else 0
    rows = np.moveaxis(x, axis, -1).reshape(count, x.shape[axis])
    wanted = np.array([ordered(row, k, largest) for row in rows], np.int64).reshape(count, k)
    np.testing.assert_array_equal(np.moveaxis(indices, axis, -1).reshape(count, k), wanted)
    graph = Graph()
    made = graph.make_input(LogicalTensor(from_numpy(x.dtype), x.shape))
    op = graph.make("top_k", [made], attrs, "x")
    assert isinstance(op, CompositeOp)
    for part in op.decompose(graph):
        graph.make_output(part)
    graph.ops = [o for o in graph.ops if o.op_name != "top_k"]
    got_values, got_indices = graph.evaluate([x])
    np.testing.assert_array_equal(got_indices, indices)
    np.testing.assert_array_equal(got_values.astype(np.float64), values.astype(np.float64))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("largest", [True, False])
def test_every_dtype(dtype, largest):
    check(random_array(dtype, (3, 7)), 4, largest=largest)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
@pytest.mark.parametrize("k", [0, 1, 2])
def test_axes(axis, k):
    check(random_array("s8", (2, 3, 4)), k, axis)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 5, 6, 17, 20])
def test_ties_infinities_and_nan(k, largest):
    row = [1, np.nan, -np.inf, np.inf, 1, -np.inf, np.nan, 0, -0.0, np.inf]
    check(np.array([row * 2, [-np.inf] * 20, [np.nan] * 20], np.float32), k, largest=largest)


def test_nothing_to_order():
    check(np.zeros((2, 0), np.float32), 0)


@pytest.mark.parametrize(("k", "largest"), [(3, True), (20, True), (4, False)])
def test_native(k, largest):
    x = random_array("f32", (3, 37))
    x[1, 5:9] = [np.nan, np.inf, -np.inf, np.nan]
    graph = Graph()
    made = graph.make_input(LogicalTensor(from_numpy(x.dtype), x.shape), "x")
    for tensor in graph.make("top_k", [made], {"k": k, "largest": largest}, "top").outputs:
        graph.make_output(tensor)
    with compile(graph, threads=1) as model:
        got = model(x)
    for mine, wanted in zip(got, graph.evaluate([x]), strict=True):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.parametrize("k", [-1, 8])
def test_rejects(k):
    with pytest.raises(UserError) as error:
        make_op("top_k", [random_array("f32", (2, 7))], {"k": k})
    assert str(error.value) == f"top_k 'x': k must be in [0, 7], got {k}"
