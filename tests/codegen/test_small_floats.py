"""Floats of 8 bits and less, and integers of 2 and 4 bits: native casts beside ml_dtypes, for all values of 16 bits."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphc.base.dtypes import BF16, BOOL, F16, F32, F64, S32, S64, SMALL, DType
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.reference import convert
from graphc.runtime.executor import CompiledModel
from support.native_functions import SHAPES, runnable_target

SOURCES = (F64, F32, F16, BF16, S64, S32, BOOL, *SMALL)


@cache
def values(dtype: DType) -> Array:
    """Every value of up to 16 bits; of more, what lies in the middle of two small floats, and its neighbors."""
    if dtype.bits <= 16:
        patterns = np.arange(1 << dtype.bits).astype(f"u{dtype.size}")
        return np.resize(patterns, max(patterns.size, 64)).view(dtype.numpy)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << dtype.bits, 5000, f"u{dtype.size}").view(dtype.numpy)
    if not dtype.is_float:
        return np.concatenate([bits, np.arange(-300, 300).astype(dtype.numpy)])
    each = [np.arange(1 << d.bits, dtype=np.uint8).view(d.numpy) for d in SMALL if d.is_float]
    near = np.concatenate([x.astype(np.float64) for x in each])
    near = np.unique(near[np.isfinite(near)])
    middle = ((near[1:] + near[:-1]) / 2).astype(dtype.numpy)
    beside = [np.nextafter(middle, dtype.numpy.type(way)) for way in (np.inf, -np.inf)]
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], dtype.numpy)
    return np.concatenate([bits, middle, *beside, special])


def casts(source: DType, target: str) -> dict[DType, Array]:
    """The values of a type as every small type, and small ones as every other."""
    x, graph = values(source), Graph("casts")
    tensor = graph.make_input(LogicalTensor(source, x.shape), "x")
    targets = [d for d in SOURCES if d != source and (d in SMALL or source in SMALL)]
    for dtype in targets:
        graph.make_output(graph.make("cast", [tensor], {"dtype": dtype}, f"to_{dtype}").outputs[0])
    stages = compile_stages(graph, runnable_target(target))
    return dict(zip(targets, CompiledModel(stages.artifact).run(None, {"x": x}), strict=True))


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_casts(shape: str, source: DType) -> None:
    for dtype, got in casts(source, shape).items():
        wanted = convert(values(source), dtype)
        if dtype in SMALL:  # bit by bit, NaNs included
            assert got.tobytes() == wanted.tobytes(), dtype
        else:
            with np.errstate(invalid="ignore"):  # NaNs that signal
                both = got.astype(np.float64), wanted.astype(np.float64)
            np.testing.assert_array_equal(*both)


@pytest.mark.parametrize("dtype", [d for d in SMALL if d.is_float], ids=str)
@pytest.mark.parametrize("source", (F32, F16, BF16), ids=str)
def test_the_reference_is_what_ml_dtypes_does(source: DType, dtype: DType) -> None:
    with np.errstate(all="ignore"):
        assert (
            convert(values(source), dtype).tobytes() == values(source).astype(dtype.numpy).tobytes()
        )
