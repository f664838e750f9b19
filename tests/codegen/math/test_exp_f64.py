from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F64
from graphc.codegen.host import host_supports
from graphc.codegen.math.exp_f64 import exp_f64
from graphc.codegen.numpy_vector_ops import NumpyVectorOps
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

Array = np.ndarray[Any, Any]
SPECIAL = {
    -np.inf: 0.0, np.inf: np.inf, np.nan: np.nan, -0.0: 1.0, 710.0: np.inf, -746.0: 0.0,
    -745.13: 5e-324, 1e-300: 1.0,
}  # fmt: skip


def inputs() -> Array:
    random = np.random.default_rng(0)
    wide = random.uniform(-745, 709.7, 20000)
    return np.concatenate([wide, random.standard_normal(20000), random.uniform(-745, -700, 2000)])


def ulps(found: Array, x: Array) -> Array:
    """Errors in units in the last place, against extended precision."""
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.longdouble))
        return np.asarray(np.abs(found - exact) / np.spacing(exact.astype(np.float64)))


@pytest.mark.parametrize("has_fma", [True, False])
def test_error_is_within_the_promised_bound(has_fma: bool) -> None:
    x = inputs()
    with np.errstate(all="ignore"):
        found = np.asarray(exp_f64(NumpyVectorOps(has_fma).wide, x))
        special = np.asarray(exp_f64(NumpyVectorOps(has_fma).wide, np.array(list(SPECIAL))))
    assert ulps(found, x).max() <= (1 if has_fma else 1.2)
    np.testing.assert_array_equal(special, list(SPECIAL.values()))


@pytest.mark.parametrize("isa", [i for i in ("avx512", "avx2", "generic") if host_supports(i)])
def test_native(isa: str) -> None:
    x = np.concatenate([inputs()[:4099], list(SPECIAL)])
    graph = Graph("exp")
    given = graph.make_input(LogicalTensor(F64, x.shape), "x")
    graph.make_output(graph.make("exp", [given]).outputs[0], "y")
    found = compile_model(graph, target=isa, threads=1)(x)
    assert ulps(found[:4099], x[:4099]).max() <= (1.2 if isa == "generic" else 1)
    np.testing.assert_array_equal(found[4099:], list(SPECIAL.values()))
