import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import FLOATS, check_op, make_op, random_array


def _log_sum(x, axis):
    return np.logaddexp.reduce(x, axis=axis, keepdims=True)


FORMULAS = {
    "softmax": lambda x, axis: np.exp(x - _log_sum(x, axis)),
    "log_softmax": lambda x, axis: x - _log_sum(x, axis),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("name", FORMULAS)
def test_softmax(name, axis, dtype):
    x = random_array(dtype, (2, 3, 5))
    check_op(name, [x], {"axis": axis}, lambda x: FORMULAS[name](x, axis), factor=4)


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("shape", [(1,), (3, 1), (0, 3), (2, 0)])
def test_boundary_shapes(name, shape):
    check_op(name, [random_array("f32", shape)])


def test_large_values_do_not_overflow():
    x = np.array([[1000.0, 1000.0], [-1000.0, 1000.0], [3e38, -3e38]], np.float32)
    check_op("softmax", [x], {}, np.array([[0.5, 0.5], [0, 1], [1, 0]], np.float32))


def test_masked_elements_get_nothing_and_a_masked_row_is_nan():
    x = np.array([[-np.inf, 0.0, 0.0], [-np.inf] * 3], np.float32)
    expected = np.array([[0, 0.5, 0.5], [np.nan] * 3], np.float32)
    check_op("softmax", [x], {}, expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["native", "avx2"])
@pytest.mark.parametrize("axis", [0, 1])
def test_a_nan_anywhere_makes_its_row_nan(axis: int, isa: str, rng: np.random.Generator) -> None:
    """The largest element is found without looking for NaN."""
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (40, 37)), "x")
    for name in FORMULAS:
        graph.make_output(graph.make(name, [x], {"axis": axis}).outputs[0], name)
    summed = graph.make("reduce_log_sum_exp", [x], {"axes": (axis,), "keep_dims": True}).outputs[0]
    graph.make_output(summed, "summed")
    value = rng.standard_normal((40, 37)).astype(np.float32)
    value[np.arange(0, 36, 2), np.arange(0, 36, 2)] = np.nan
    results = graphc.compile(graph, target=isa).run(None, {"x": value})
    for result, wanted in zip(results, graph.evaluate([value]), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
    assert np.isnan(results[0]).any() and not np.isnan(results[0]).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", [(0,), (-1,), (0, 2), None, ()])
def test_log_sum_exp(axes, keep_dims, dtype):
    def formula(x):
        if axes == ():
            return x
        return np.log(np.sum(np.exp(x), axis=axes, keepdims=keep_dims))

    attrs = {"axes": axes, "keep_dims": keep_dims}
    check_op("reduce_log_sum_exp", [random_array(dtype, (2, 3, 4))], attrs, formula, factor=4)


def test_log_sum_exp_of_infinities():
    x = np.array([[-np.inf, -np.inf], [np.inf, 0], [1000, 1000]], np.float32)
    expected = np.array([-np.inf, np.inf, 1000 + np.log(2)], np.float32)
    check_op("reduce_log_sum_exp", [x], {"axes": (1,)}, expected)


@pytest.mark.parametrize("name", [*FORMULAS, "reduce_log_sum_exp"])
def test_rejects_integers(name):
    message = f"^{name} 'x': input dtype must be a float, got s32; insert a cast$"
    with pytest.raises(UserError, match=message):
        make_op(name, [random_array("s32", (2, 2))])


def test_rejects_a_missing_axis():
    with pytest.raises(UserError, match=r"^softmax 'x': axis must be in \[-1, 1\), got 1$"):
        make_op("softmax", [random_array("f32", (2,))], {"axis": 1})
