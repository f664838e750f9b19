"""Tensor IR in tests: random arguments for any function, and "means the same" between two modules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.tensor_ir.interpreter import run
from graphc.tensor_ir.nodes import Buffer, Function, Module
from graphc.tensor_ir.verifier import verify

Array = np.ndarray[Any, Any]


def random_array(buffer: Buffer, rng: np.random.Generator) -> Array:
    """Small integers, so that arithmetic is exact in any order."""
    low = -4 if buffer.dtype.is_signed else 0
    return (
        rng.integers(low, 5, math.prod(buffer.shape))
        .astype(buffer.dtype.numpy)
        .reshape(buffer.shape)
    )


def random_arguments(function: Function, rng: np.random.Generator) -> list[Array | int]:
    """An array per buffer, a small number per variable."""
    return [
        random_array(p, rng) if isinstance(p, Buffer) else int(rng.integers(0, 4))
        for p in function.params
    ]


def results(
    module: Module, name: str, arguments: list[Array | int], shuffle: int | None = None
) -> list[Array]:
    """The arrays after a run on copies of `arguments`, flat."""
    params = module.function(name).params
    copies = [
        a.copy().reshape(p.shape) if isinstance(a, np.ndarray) and isinstance(p, Buffer) else a
        for a, p in zip(arguments, params, strict=True)
    ]
    run(module, name, copies, shuffle)
    return [a.reshape(-1) for a in copies if isinstance(a, np.ndarray)]


def assert_same_meaning(before: Module, after: Module, rng: np.random.Generator) -> None:
    """Both are legal, and every function of `before` leaves the same bits behind in both."""
    verify(before)
    verify(after)
    for function in before.functions:
        arguments = random_arguments(function, rng)
        expected = results(before, function.name, arguments)
        actual = results(after, function.name, arguments, shuffle=7)
        for one, other in zip(expected, actual, strict=True):
            np.testing.assert_array_equal(other.view(np.uint8), one.view(np.uint8))
