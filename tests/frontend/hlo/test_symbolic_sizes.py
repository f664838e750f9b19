"""StableHLO of symbolic sizes gets its parameters' sizes from the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.frontend import load

jax = pytest.importorskip("jax")
jnp, export = jax.numpy, pytest.importorskip("jax.export")

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: jnp.maximum(x, 0),
    "matmul": lambda x: x @ x.T,
    "range": lambda x: x + jnp.arange(x.shape[0])[:, None],
    "half": lambda x: x[: x.shape[0] // 2],
    "plain": lambda x: jnp.concatenate([x, x], 0),
}


def exported(function: Callable[[Any], Any]) -> Any:
    shape = export.symbolic_shape("b,c")
    return export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, np.float32))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FUNCTIONS)
def test_given_sizes_are_those_of_the_model(name: str) -> None:
    module = exported(FUNCTIONS[name])
    x = np.arange(-10, 20, dtype=np.float32).reshape(6, 5)
    for source in (module, str(module.mlir_module()).encode()):
        (result,) = load(source, inputs={"arg0": "f32[6,5]"}).evaluate([x])
        np.testing.assert_array_equal(result, np.asarray(FUNCTIONS[name](x)))


def test_sizes_that_are_not_given_are_named() -> None:
    module = exported(FUNCTIONS["relu"])
    for inputs in (None, {"arg0": "f32[N,5]"}):
        with pytest.raises(
            graphc.UnsupportedError, match=r"'arg0' is tensor<\?x\?xf32>; give them"
        ):
            load(module, inputs=inputs)
    with pytest.raises(graphc.UserError, match=r"input 'arg0' must be \[\?,\?\]"):
        load(module, inputs={"arg0": "f32[6]"})
