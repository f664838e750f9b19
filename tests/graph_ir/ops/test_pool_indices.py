from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import check_op, make_op
from support.compiled import check_native

PADDED = {"kernel": (3, 2), "strides": (2, 1), "before": (1, 1), "after": (1, 0)}
GRID = [
    {"kernel": (2, 2), "strides": (2, 2)},
    PADDED,
    {**PADDED, "dilations": (2, 3), "ceil_mode": True},
    {"kernel": (3,), "strides": (3,), "after": (2,)},
]


def few_values(dtype=np.float32):
    """Few values, so that many elements of a window are equal, all below the zero of the padding."""
    return np.random.default_rng(0).integers(-6, -1, (2, 3, 7, 8)).astype(dtype)


@pytest.mark.exhaustive
@pytest.mark.parametrize("attrs", GRID)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
def test_elements_at_the_indices_are_the_largest_ones(attrs, dtype):
    x = few_values(dtype)
    indices = check_op("max_pool_indices", [x], attrs)
    rank = len(attrs["kernel"])
    flat = x.reshape(*x.shape[:-rank], -1)
    picked = np.take_along_axis(flat, indices.reshape(*indices.shape[:-rank], -1), -1)
    values = check_op("max_pool", [x], attrs)
    np.testing.assert_array_equal(picked.reshape(values.shape), values)


@pytest.mark.parametrize("shape", [(7,), (5, 4)])
def test_windows_may_slide_over_every_axis(shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    check_native("max_pool_indices", [x], {"kernel": (2,) * len(shape)})


@pytest.mark.parametrize("attrs", GRID)
def test_native_is_the_reference(attrs):
    check_native("max_pool_indices", [few_values()], attrs)


def test_the_first_of_equal_elements_and_nan_above_all():
    x = np.array([[5, 5, 1], [np.nan, 7, np.nan], [-np.inf] * 3], np.float32)
    attrs = {"kernel": (3,), "before": (1,), "after": (0,)}
    expected = np.array([[0, 0], [0, 0], [0, 0]])
    check_op("max_pool_indices", [x], attrs, expected)
    check_native("max_pool_indices", [x], attrs)


@pytest.mark.parametrize("attrs", [*GRID, {"kernel": (40,), "strides": (3,), "before": (7,)}])
def test_dynamic_sizes_give_the_indices_of_static_ones(attrs):
    graph, rank = Graph("pool"), len(attrs["kernel"])
    sizes = [size(Symbol(name, 40 if rank == 1 else 3)) for name in "HW"]
    x = graph.make_input(LogicalTensor(F32, (2, *sizes)), "x")
    graph.make_output(graph.make("max_pool_indices", [x], attrs).outputs[0], "y")
    model = graphc.compile(graph)
    for dims in ((41, 40), (52, 97)):
        image = np.random.default_rng(0).integers(-6, -1, (2, *dims)).astype(np.float32)
        expected = make_op("max_pool_indices", [image], attrs).reference([image])[0]
        np.testing.assert_array_equal(model(image), expected)


def test_bools_have_no_position():
    with pytest.raises(UserError) as error:
        make_op("max_pool_indices", [np.zeros((2, 2), bool)], {"kernel": (2,)})
    assert str(error.value) == (
        "max_pool_indices 'x': input dtype must be a float or an integer, got bool; insert a cast"
    )
