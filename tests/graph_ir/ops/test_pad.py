import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.driver.compiler import compile as compile_model
from support.check_op import ALL, check_op, make_op, random_array
from support.compiled import check_native, graph_of_op


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("before", "after"), [((0, 0), (0, 0)), ((1, 2), (0, 3)), ((0, 3), (2, 0)), ((2, 3), (2, 3)), ((0, 0), (1, 1))]
)  # fmt: skip
def test_modes(mode, before, after):
    x = random_array("f32", (3, 4))
    expected = np.pad(x, list(zip(before, after, strict=True)), mode)
    check_op("pad", [x], {"before": before, "after": after, "mode": mode}, expected)


@pytest.mark.parametrize(("before", "after"), [((7, 0), (0, 9)), ((-1, 5), (6, -2))])
def test_wrapping_more_than_once(before, after):
    x = random_array("f32", (3, 4))
    rows, columns = (
        np.arange(-b, size + a) % size for b, size, a in zip(before, x.shape, after, strict=True)
    )
    attrs = {"before": before, "after": after, "mode": "wrap"}
    check_op("pad", [x], attrs, x[rows][:, columns])
    check_native("pad", [x], attrs)


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_pads_with_its_value(dtype):
    x = random_array(dtype, (2, 3))
    expected = np.pad(x, [(1, 0), (0, 2)], constant_values=1)
    check_op("pad", [x], {"before": (1, 0), "after": (0, 2), "value": 1.0}, expected)


def test_infinity_pads_for_max_pooling():
    x = random_array("f16", (2,))
    result = check_op("pad", [x], {"before": (1,), "after": (0,), "value": -np.inf})
    assert result[0] == -np.inf


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_negative_pads_crop(mode):
    x = random_array("s32", (6, 5))
    attrs = {"before": (-1, 2), "after": (2, -3), "mode": mode}
    expected = np.pad(x, [(0, 0), (2, 0)], mode)[1:, :-3]
    expected = np.pad(expected, [(0, 2), (0, 0)], mode)
    check_op("pad", [x], attrs, expected)


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_an_empty_tensor_pads_to_the_constant(shape):
    x = random_array("f32", shape)
    ones = (1,) * len(shape)
    expected = np.pad(x, 1, constant_values=7)
    check_op("pad", [x], {"before": ones, "after": ones, "value": 7}, expected)


def test_a_scalar_has_nothing_to_pad():
    two = np.array(2.0, np.float32)
    check_op("pad", [two], {"before": (), "after": ()}, two)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"before": (3,), "after": (0,), "mode": "reflect"},
         "pad 'x': axis 0 of 3 elements must be long enough for mode reflect, got 3 before and 0 after"),
        ({"before": (-2,), "after": (-2,)},
         "pad 'x': axis 0 of 3 elements must be long enough for mode constant, got -2 before and -2 after"),
        ({"before": (1,), "after": (1,), "mode": "round"},
         "pad 'x': mode must be one of constant, reflect, edge, wrap, got 'round'"),
        ({"before": (1, 1), "after": (1,)}, "pad 'x': before must have one entry for each of the 1 axes, got [1, 1]"),
    ],
)  # fmt: skip
def test_rejects(attrs, message):
    with pytest.raises(UserError) as error:
        make_op("pad", [random_array("f32", (3,))], attrs)
    assert str(error.value) == message


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize(
    ("columns", "edges"), [(16, (1, 1)), (37, (3, 0)), (33, (17, 20)), (5, (4, -2))]
)
def test_edges_apart_or_inside_of_the_loop(mode, columns, edges):
    """Rows of whole vectors and with a rest; edges shorter and longer than a vector."""
    x = random_array("f32", (2, 3, columns))
    attrs = {"before": (0, 1, edges[0]), "after": (0, 2, edges[1]), "mode": mode, "value": -1.5}
    graph = graph_of_op("pad", [x], attrs)
    (expected,) = graph.evaluate([x])
    for off in (frozenset(), frozenset({"split-loops"})):
        np.testing.assert_array_equal(compile_model(graph, disabled=off)(x), expected)
