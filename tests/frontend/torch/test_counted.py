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


def part(n: torch.Tensor) -> Any:
    """A number that the program promises to be from 0 to 6."""
    size = n.item()
    torch._check(size >= 0)
    torch._check(size <= 6)
    return size


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x[: part(n)],
        lambda x, n: x.narrow(0, part(n), 2),
        lambda x, n: torch.split(x, [part(n), 8 - part(n)]),
        lambda x, n: torch.topk(x, part(n), dim=0),
        lambda x, n: x[part(n)],
        lambda x, n: torch.roll(x, part(n), 0),
        lambda x, n: x.repeat_interleave(part(n), 0),
    ],
)
def test_parts_within_a_promised_range(function: Callable[..., Any]) -> None:
    x = torch.arange(24.0).view(8, 3).sin()
    model = check(function, [(x, torch.tensor(n)) for n in (3, 1, 0, 6)])
    with pytest.raises(UserError, match=r"must be in 0\.\.6, got 7"):
        model(x.numpy(), np.array(7))


def test_a_message_names_an_argument_that_is_called_as_its_node() -> None:
    def padded(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return nn.functional.pad(x, (n.item(), 0), mode="reflect")

    with pytest.raises(UnsupportedError, match="aten.pad: [^:]") as raised:
        check(padded, [(torch.ones(2, 5), torch.tensor(2))])
    assert "aten.pad: that" not in str(raised.value)


def test_a_negative_number_is_no_size() -> None:
    model = check(lambda x: torch.arange(x[0].item()), [(torch.tensor([3]),)])
    with pytest.raises(
        UserError, match=r"the size 'u0', which the data decide, must be in 0\.\., got -1"
    ):
        model(np.array([-1]))


def test_what_follows_from_a_refused_call_is_not_listed() -> None:
    def parts(x: torch.Tensor) -> torch.Tensor:
        values, _ = torch.linalg.eig(x)
        return torch.view_as_real(values).sum(0) + torch.special.airy_ai(x).sum()

    program = torch.export.export(Function(parts), (torch.rand(4, 4),))
    with pytest.raises(UnsupportedError, match="linalg_eig.*; special_airy_ai") as caught:
        graphc.compile(program)
    assert "getitem" not in str(caught.value)


def _up_to(x: torch.Tensor, number: torch.Tensor, function: Callable[..., Any]) -> Any:
    k = number.item()
    torch._check(k >= 0)
    torch._check(k <= x.shape[0])
    return function(x, k)


def _below(x: torch.Tensor, number: torch.Tensor, function: Callable[..., Any]) -> Any:
    k = number.item()
    torch._check(k >= 1)
    torch._check(k < x.shape[0])
    return function(x, k)


@pytest.mark.parametrize(
    ("promise", "function"),
    [
        (_up_to, lambda x, k: x[:k] * 2),
        (_up_to, lambda x, k: x[:k].sum(0)),
        (_up_to, lambda x, k: torch.cat([x[:k], -x[k:]])),
        (_up_to, lambda x, k: torch.narrow(x, 0, 0, k)),
        (_below, lambda x, k: x[k:]),
        (_below, lambda x, k: (x[:k] + 1, x[k:])),
    ],
)
@pytest.mark.parametrize("is_wide", [False, True])
def test_slices_to_a_number_that_the_program_promises(
    promise: Callable[..., Any], function: Callable[..., Any], is_wide: bool
) -> None:
    some = torch.export.Dim.DYNAMIC
    shapes = [{0: some, 1: some} if is_wide else {0: some}, None]
    pairs = [(torch.randn(6, 4), torch.tensor(3)), (torch.randn(9, 4), torch.tensor(8))]
    pairs += [(torch.randn(3, 7), torch.tensor(2))] if is_wide else []
    model = check(lambda x, n: promise(x, n, function), pairs, shapes)
    for number in (-1, 7):
        with pytest.raises(UserError, match="must be in|Runtime assertion failed for expression"):
            model(np.zeros((6, 4), np.float32), np.array(number))


def test_a_number_that_must_be_a_size() -> None:
    def function(x: torch.Tensor, number: torch.Tensor) -> torch.Tensor:
        k = number.item()
        torch._check(k == x.shape[0])
        return x.view(k, -1)

    pairs = [(torch.randn(n, 4), torch.tensor(n)) for n in (6, 9)]
    model = check(function, pairs, [{0: torch.export.Dim.DYNAMIC}, None])
    for number in (-1, 7):
        with pytest.raises(UserError, match="the number must be"):
            model(np.zeros((6, 4), np.float32), np.array(number))


def test_square_roots_of_sizes() -> None:
    pairs = [(torch.randn(2, n),) for n in (5, 9)]
    check(lambda x: x * torch.sym_sqrt(x.shape[1]), pairs, [{1: torch.export.Dim.DYNAMIC}])
