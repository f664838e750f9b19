import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, S32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.rewriting.written_out import written_out
from support.check_op import NUMBERS, check_op, make_op, random_array


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_every_number(dtype, axis):
    x = random_array(dtype, (3, 4))
    check_op("cum_sum", [x], {"axis": axis}, lambda v: np.cumsum(v, axis=axis, dtype=v.dtype))
    check_op("cum_prod", [x], {"axis": axis}, lambda v: np.cumprod(v, axis=axis, dtype=v.dtype), 4)


@pytest.mark.parametrize(
    ("attrs", "total", "prod"),
    [
        ({}, [2, 5, 9], [2, 6, 24]),
        ({"exclusive": True}, [0, 2, 5], [1, 2, 6]),
        ({"reverse": True}, [9, 7, 4], [24, 12, 4]),
        ({"exclusive": True, "reverse": True}, [7, 4, 0], [12, 4, 1]),
    ],
)
def test_directions(attrs, total, prod):
    x = np.array([2, 3, 4], np.int32)
    check_op("cum_sum", [x], attrs, np.array(total, np.int32))
    check_op("cum_prod", [x], attrs, np.array(prod, np.int32))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("shape", [(0,), (1,), (2, 0)])
def test_small_axes(shape, exclusive):
    x = random_array("f32", shape)
    check_op("cum_sum", [x], {"axis": -1, "exclusive": exclusive})


def test_rejects_bools():
    with pytest.raises(UserError, match=r"^cum_sum 'x': input dtype must be a float or an integer"):
        make_op("cum_sum", [random_array("bool", (2,))])


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_dynamic_number_of_steps(axis: int, reverse: bool, rng: np.random.Generator) -> None:
    """Positions counted from the mask of a sentence; integers have the bits of static sizes."""
    graph = Graph("positions")
    x = graph.make_input(LogicalTensor(S32, (size(Symbol("B")), size(Symbol("S")), 3)), "x")
    x = x if axis == 1 else graph.make("transpose", [x], {"perm": (0, 2, 1)}).outputs[0]
    attrs = {"axis": axis, "reverse": reverse, "exclusive": reverse}
    graph.make_output(graph.make("cum_sum", [x], attrs).outputs[0], "y")
    model = graphc.compile(graph, threads=1)
    for b, s in ((1, 1), (2, 9), (3, 40)):
        values = rng.integers(-9, 9, (b, s, 3)).astype(np.int32)
        given = values if axis == 1 else values.transpose(0, 2, 1)
        flipped = np.flip(given, axis) if reverse else given
        total = np.cumsum(flipped, axis, dtype=np.int32) - flipped * reverse
        assert np.array_equal(model(values), np.flip(total, axis) if reverse else total)


@pytest.mark.parametrize("axis", [0, 1])
def test_extremes_and_logarithms_of_sums(axis: int, rng: np.random.Generator) -> None:
    """NaN stays from the first on; infinities of one sign have no difference; all sizes are dynamic too."""
    functions = {
        "cum_max": np.maximum.accumulate,
        "cum_min": np.minimum.accumulate,
        "cum_log_sum_exp": np.logaddexp.accumulate,
    }

    def running(*dims: Size) -> Graph:
        graph = Graph("running")
        x = graph.make_input(LogicalTensor(F32, dims), "x")
        for name in functions:
            graph.make_output(graph.make(name, [x], {"axis": axis}).outputs[0], name)
        return graph

    static, n = graphc.compile(running(20, 20), threads=1), size(Symbol("N"))
    dynamic = graphc.compile(running(n, 20) if axis == 0 else running(20, n), threads=1)
    x = (rng.integers(-300, 300, (20, 20)) / 4).astype(np.float32)
    x[5, 7], x[3, 0], x[2, 2:5], x[9:12, 9] = np.nan, np.inf, -np.inf, -np.inf
    x[0, 4:9], x[4:9, 0] = -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        wanted = [function(x.astype(np.float64), axis) for function in functions.values()]
    for model in (static, dynamic):
        for found, y in zip(model.run(None, {"x": x}), wanted, strict=True):
            np.testing.assert_allclose(found, y, 2e-6, 2e-6)
    one = x[:1] if axis == 0 else x[:, :1]
    np.testing.assert_array_equal(dynamic.run(None, {"x": one})[0], one)


@pytest.mark.parametrize("op_name", ["cum_sum", "cum_log_sum_exp"])
def test_a_dynamic_number_of_columns(op_name: str, rng: np.random.Generator) -> None:
    """Full tiles of 512 columns, and the remaining ones."""
    graph = Graph("sums")
    x = graph.make_input(LogicalTensor(F32, (3, 4, size(Symbol("N", 1, 2000)))), "x")
    attrs = {"axis": 1, "reverse": True}
    graph.make_output(graph.make(op_name, [x], attrs).outputs[0], "y")
    model = graphc.compile(graph)
    for columns in (1, 511, 512, 1025):
        given = rng.integers(-9, 9, (3, 4, columns)).astype(np.float32)
        (expected,) = make_op(op_name, [given], attrs).reference([given])
        np.testing.assert_allclose(model(given), expected, rtol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 2, 7, 16])
@pytest.mark.parametrize("op_name", ["cum_max", "cum_min", "cum_log_sum_exp"])
def test_formats_without_such_scans_get_smaller_ops(op_name: str, size: int) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (3, size)), "x")
    graph.make_output(graph.make(op_name, [x], {"axis": 1}).outputs[0], "y")
    again = written_out(graph)
    assert op_name not in {op.op_name for op in again.ops}
    values = (np.arange(3.0 * size) % 5 - 2).reshape(3, size).astype(np.float32)
    if size > 2:
        values[0, 1], values[1, :2], values[2, 2] = np.nan, -np.inf, np.inf
    with np.errstate(invalid="ignore"):
        (found,), (wanted,) = again.evaluate([values]), graph.evaluate([values])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_scans_of_a_dynamic_axis_stay() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (3, size(Symbol("N")))), "x")
    graph.make_output(graph.make("cum_max", [x], {"axis": 1}).outputs[0], "y")
    assert written_out(graph) is graph
