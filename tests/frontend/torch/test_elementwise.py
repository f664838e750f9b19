"""Elementwise operators of ATen, exported and compared with PyTorch bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import graphc

NUMBERS = torch.tensor([0, 0, 12, -18, 7, 1 << 40, 35, 1])
OTHERS = torch.tensor([0, 5, 18, 12, 0, 1 << 20, -21, 13])
SPECIAL = [0.0, -0.0, 1, -1, float("inf"), -float("inf"), float("nan"), 3e38, 2.0, -1e-30]


class Function(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def check(function: Callable[..., Any], *inputs: torch.Tensor) -> None:
    module = Function(function)
    found = graphc.compile(torch.export.export(module, inputs), threads=1)(
        *(x.numpy() for x in inputs)
    )
    wanted = module(*inputs).numpy()
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize("function", [torch.gcd, torch.lcm])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_divisors_and_multiples(function: Callable[..., Any], dtype: torch.dtype) -> None:
    least = NUMBERS.clamp(max=1 << 20).to(dtype)
    check(function, least, OTHERS.clamp(max=1 << 10).to(dtype))
    check(function, least[:, None], least[None, :4])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbors_of_floats(dtype: torch.dtype) -> None:
    x = torch.tensor(SPECIAL, dtype=dtype)
    check(torch.nextafter, x[:, None].contiguous(), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_fractions_and_exponents(dtype: torch.dtype) -> None:
    numbers = [*SPECIAL, 0.5, -3.0, 1e-45, -1e-310, 2.0**-126, 6e-8, 0.99999997, 65504.0]
    x = torch.tensor(numbers, dtype=dtype)
    check(lambda x: torch.frexp(x)[0], x)
    check(lambda x: torch.frexp(x)[1], x)


def test_powers_of_two_have_no_sign() -> None:
    ends = [2.0**-127, 1.5 * 2.0**-127, 2.0**-128, 1.5, 1.4, -3.0, -0.3, 1e-45, -1e38]
    x = torch.tensor([*SPECIAL, *ends])
    check(lambda x: x.to(torch.float8_e8m0fnu).float(), x)


@pytest.mark.parametrize("bounds", [(-5, 50), (-200, None), (None, -1), (1.5, 3), (0, 90)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16], ids=str)
def test_clamp_wraps_a_negative_bound_of_unsigned_values(
    dtype: torch.dtype, bounds: tuple[float | None, float | None]
) -> None:
    check(lambda x: x.clamp(*bounds), torch.tensor([0, 1, 7, 100, 255], dtype=dtype))
