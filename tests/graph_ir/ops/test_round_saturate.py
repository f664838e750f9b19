"""round_saturate: halves, bounds, NaN, both kinds of result; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32, by_name
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.check_op import check_op
from support.compiled import check_native

EDGES = np.array(
    [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 0.49999997, 7],
    np.float32,
)


@pytest.mark.parametrize("zero", [0, 3, -128, 127])
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("s8", -128, 127), ("u8", 0, 255), ("s8", -8, 7), ("u16", 0, 65535), ("s16", -32768, 32767)],
)
def test_integers(dtype: str, low: int, high: int, zero: int) -> None:
    attrs = {"dtype": dtype, "zero": zero, "low": low, "high": high}
    with np.errstate(invalid="ignore"):
        wanted = np.clip(np.rint(EDGES.astype(np.float64)) + zero, low, high)
    wanted[np.isnan(EDGES)] = 0
    expected = wanted.astype(by_name(dtype).numpy)
    np.testing.assert_array_equal(check_op("round_saturate", [EDGES], attrs), expected)
    x = np.tile(EDGES, 5)[: 5 * 13].reshape(5, 13)  # vectors and single elements
    np.testing.assert_array_equal(
        check_native("round_saturate", [x], attrs), np.tile(expected, 5)[: x.size].reshape(x.shape)
    )


def test_whole_numbers_in_f32_stay_between_the_bounds() -> None:
    attrs = {"dtype": "f32", "zero": 0, "low": -3, "high": 252, "nan": -3}
    x = np.array([-4.0, -2.5, 1.5, 251.6, 1e9, np.nan], np.float32)
    expected = np.array([-3, -2, 2, 252, 252, -3], np.float32)
    np.testing.assert_array_equal(check_op("round_saturate", [x], attrs), expected)
    np.testing.assert_array_equal(check_native("round_saturate", [x], attrs), expected)


@pytest.mark.parametrize(
    ("given", "attrs", "message"),
    [
        ("f64", {"dtype": "u8", "low": 0, "high": 255}, "x must be f32, got f64; insert a cast"),
        ("f32", {"dtype": "s32", "low": 0, "high": 9}, "dtype must be f32 or an integer of 8 or 16 bits, got s32"),
        ("f32", {"dtype": "u8", "low": 0, "high": 256},
         "low, nan and high must be in order and fit u8, got 0, 0 and 256, zero 0"),
        ("f32", {"dtype": "u8", "low": 9, "high": 20},
         "low, nan and high must be in order and fit u8, got 9, 0 and 20, zero 0"),
    ],
)  # fmt: skip
def test_refused(given: str, attrs: dict[str, Any], message: str) -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(by_name(given), (3,)))
    with pytest.raises(UserError) as error:
        graph.make("round_saturate", [x], attrs, "r")
    assert str(error.value) == f"round_saturate 'r': {message}"


def test_the_result_has_the_type() -> None:
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (3,)))
    op = graph.make("round_saturate", [x], {"dtype": "s16", "low": -9, "high": 9})
    assert str(op.outputs[0].details) == "s16[3]"
