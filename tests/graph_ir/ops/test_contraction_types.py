"""Matmuls and convolutions of 8-bit integers with exact s32 results, alone, compiled, and through every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import by_name, from_numpy
from graphc.base.errors import UnsupportedError, UserError
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.fuzz.format_route import reread
from support.check_op import check_op
from support.compiled import check_native

PAIRS = [("u8", "s8"), ("s8", "s8"), ("u8", "u8"), ("s8", "u8")]


def extremes(dtype: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Every value of the type, its limits often."""
    limits = np.iinfo(by_name(dtype).numpy)
    rng = np.random.default_rng(seed)
    values = rng.integers(limits.min, limits.max + 1, shape)
    ends = rng.choice([limits.min, limits.max], shape)
    return np.where(rng.random(shape) < 0.3, ends, values).astype(by_name(dtype).numpy)


def wide_matmul(a: Array, b: Array) -> Array:
    return np.asarray(a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def graph_of(op_name: str, arrays: list[Array], attrs: dict[str, Any]) -> Graph:
    graph = Graph("matmuls")
    types = [LogicalTensor(from_numpy(x.dtype), x.shape) for x in arrays]
    inputs = [graph.make_input(details, f"x{i}") for i, details in enumerate(types)]
    graph.make_output(graph.make(op_name, inputs, {"dtype": "s32", **attrs}, "p").outputs[0], "y")
    return graph


CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "matrix": ("matmul_core", (3, 37), (37, 18), {}),
    "transposed": ("matmul_core", (2, 9, 4), (5, 9), {"transpose_a": True, "transpose_b": True}),
    "convolution": (
        "convolution", (2, 4, 7, 6), (6, 2, 3, 2), {"groups": 2, "before": (1, 0), "strides": (2, 1)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("types", PAIRS, ids="x".join)
def test_the_matmul_is_exact(types: tuple[str, str]) -> None:
    arrays = [extremes(types[0], (3, 37)), extremes(types[1], (37, 5), 1)]
    check_op("matmul_core", arrays, {"dtype": "s32"}, wide_matmul(*arrays))
    assert check_op("matmul_core", arrays, {"dtype": "s32"}).dtype == np.int32


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("types", PAIRS, ids="x".join)
def test_native_code(types: tuple[str, str], case: str) -> None:
    op_name, *shapes, attrs = CASES[case]
    arrays = [extremes(t, s, i) for i, (t, s) in enumerate(zip(types, shapes, strict=True))]
    check_native(op_name, arrays, {"dtype": "s32", **attrs})


def test_long_sums_wrap_in_s32() -> None:
    ones = [np.full(s, 255, np.uint8) for s in ((1, 40000), (40000, 1))]
    (result,) = graph_of("matmul_core", ones, {}).evaluate(ones)
    assert result[0, 0] == 40000 * 255 * 255 - 2**32


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("target", ["onnx", "hlo", "tvm", "ge", "graph"])
def test_formats(target: str, case: str, tmp_path: Path) -> None:
    """A graph that a format can express comes back with the same results."""
    arrays, graph = example(case)
    (result,) = reread(graph, target, tmp_path).evaluate(arrays)
    (wanted,) = graph.evaluate(arrays)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("case", CASES)
def test_pnnx_refuses_it(case: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"{CASES[case][0]} with dtype=s32"):
        reread(example(case)[1], "pnnx", tmp_path)


def example(case: str) -> tuple[list[Array], Graph]:
    op_name, *shapes, attrs = CASES[case]
    arrays = [extremes(t, s) for t, s in zip(("u8", "s8"), shapes, strict=True)]
    return arrays, graph_of(op_name, arrays, attrs)


@pytest.mark.parametrize(
    ("types", "dtype", "message"),
    [
        (("s8", "s8"), "s64", "dtype must be s32, f32 or left out, got s64; insert a cast"),
        (
            ("s16", "s8"),
            "s32",
            "with dtype=s32 both inputs must be s8 or u8, the second may be s16, got s16 and s8",
        ),
        (("u8", "s8"), None, "both inputs must have one dtype, got u8 and s8; insert a cast"),
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_refused_types(case: str, types: tuple[str, str], dtype: str, message: str) -> None:
    op_name, *shapes, attrs = CASES[case]
    arrays = [extremes(t, s) for t, s in zip(types, shapes, strict=True)]
    with pytest.raises(UserError) as error:
        graph_of(op_name, arrays, {**attrs, "dtype": dtype})
    assert str(error.value) == f"{op_name} 'p': {message}"
