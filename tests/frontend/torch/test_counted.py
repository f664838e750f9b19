"""Sizes that the data decide, in exported programs beside PyTorch: unbacked symbols are sizes that a run counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import graphc
from graphc.base.errors import UnsupportedError, UserError


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def check(
    function: Callable[..., Any], inputs: list[tuple[torch.Tensor, ...]], dynamic: Any = None
) -> Any:
    module = Function(function).eval()
    shapes = {"inputs": tuple(dynamic)} if dynamic else None
    program = torch.export.export(module, inputs[0], dynamic_shapes=shapes)
    model = graphc.compile(program, threads=1)
    for given in inputs:
        wanted = module(*given)
        found = model(*(x.numpy() for x in given))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for mine, theirs in zip(
            found if isinstance(found, tuple) else (found,), wanted, strict=True
        ):
            assert mine.shape == tuple(theirs.shape)
            np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-5, atol=1e-6)
    return model


def sequence_mask(lengths: torch.Tensor, most: Any = None) -> torch.Tensor:
    return torch.arange(lengths.max() if most is None else most)[None] < lengths[:, None]


def aligned(x: torch.Tensor, durations: torch.Tensor) -> torch.Tensor:
    """The alignment of VITS and Glow-TTS: each column of x as often as its duration says."""
    mask = sequence_mask(durations.sum(1)).float()
    ends = durations.cumsum(1)
    path = sequence_mask(ends.flatten(), mask.shape[1]).float().view(*ends.shape, mask.shape[1])
    path = path - nn.functional.pad(path, (0, 0, 1, 0))[:, :-1]
    return torch.tanh(x @ path) * mask[:, None]


def test_alignment_by_masks_of_lengths() -> None:
    torch.manual_seed(0)
    sizes = ((5, 3), (1, 1), (40, 9))
    inputs = [(torch.randn(2, 4, n), torch.randint(0, most + 1, (2, n)) + 1) for n, most in sizes]
    length = torch.export.Dim("T", max=100)
    check(aligned, inputs, ({2: length}, {1: length}))


def regulated(x: torch.Tensor, durations: torch.Tensor) -> torch.Tensor:
    """The length regulator of FastSpeech, with positions."""
    rows = torch.repeat_interleave(x, durations, dim=0)
    return torch.softmax(rows + torch.arange(rows.shape[0])[:, None], 0)


def test_rows_repeated_as_often_as_each_says() -> None:
    torch.manual_seed(0)
    cases = ([1, 1], [0, 3], [2, 0], [90, 30])
    check(regulated, [(torch.randn(2, 3), torch.tensor(one)) for one in cases])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.nonzero(x > 2) * 2,
        lambda x: x[x > 2] + 1,
        lambda x: torch.masked_select(x, x != 3),
        lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        lambda x: torch.unique_consecutive(x),
        lambda x: torch.unique(x.repeat(2).view(-1, 2) % 3, dim=0, return_counts=True),
        lambda x: torch.unique_consecutive(x.repeat(2).view(2, -1) // 2, dim=1),
        lambda x: torch.bincount(x).float() / x.shape[0],
        lambda x: torch.bincount(x, minlength=4),
        lambda x: torch.repeat_interleave(x),
        lambda x: torch.repeat_interleave(x, x),
        lambda x: torch.zeros(x[0].item(), 3) + 1,
        lambda x: torch.ones(2, 3)[:, None].expand(2, x.max().item(), 3).sum(1),
        lambda x: x.float().sum() * x[1].item(),
    ],
)
def test_results_as_long_as_the_data_say(function: Callable[[torch.Tensor], Any]) -> None:
    cases = ([3, 1, 2, 5, 5], [4, 2, 2, 2, 3], [100, 3, 70, 7, 3])
    check(function, [(torch.tensor(one),) for one in cases])


def test_a_negative_number_is_no_size() -> None:
    model = check(lambda x: torch.arange(x[0].item()), [(torch.tensor([3]),)])
    with pytest.raises(
        UserError, match=r"the size 'u0', which the data decide, must be in 0\.\., got -1"
    ):
        model(np.array([-1]))


def test_what_follows_from_a_refused_call_is_not_listed() -> None:
    def parts(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        size = number.item()
        torch._check(size >= 2)
        torch._check(size <= x.shape[0])
        first, _ = torch.split(x, [size, x.shape[0] - size])
        return first.sum(0) + torch.linalg.matrix_exp(x[:4, :4]).sum()

    program = torch.export.export(Function(parts), (torch.rand(8, 4), torch.tensor(3)))
    with pytest.raises(UnsupportedError, match="split_with_sizes.*; linalg_matrix_exp") as caught:
        graphc.compile(program)
    assert "getitem" not in str(caught.value)
