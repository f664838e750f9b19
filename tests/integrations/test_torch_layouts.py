"""Results lie where PyTorch has them: those that are views of one another there are so here."""

from __future__ import annotations

from typing import Any

import pytest

from graphc.integrations.torch_backend import backend
from support.dynamo import fresh, torch  # noqa: F401

PAIRS = {
    "itself and all of it": lambda y: (y, y.view(-1)),
    "a part and the whole": lambda y: (y[1:], y),
    "parts that overlap": lambda y: (y[1:3], y[:2]),
    "columns of one": lambda y: (y[:, :2], y[:, 2:]),
    "rows of one": lambda y: (y[:2], y[2:]),
    "transposed": lambda y: (y.t(), y),
    "one element, often": lambda y: (y[:, None].expand(4, 3, 4), y + 1),
    "windows": lambda y: (y.unfold(1, 3, 1), y),
    "nothing": lambda y: (y[:0], y),
    "twice": lambda y: (y, y),
}


def results(x: Any) -> list[Any]:
    """Pairs that are made of one value each, which no input holds."""
    return [y for i, pair in enumerate(PAIRS.values()) for y in pair(x * (i + 2))]


@pytest.mark.parametrize("aot", [False, True])
def test_a_write_to_one_is_seen_in_the_other(aot: bool) -> None:
    x = torch.arange(16.0).reshape(4, 4)
    expected = results(x)
    found = torch.compile(results, backend=backend, options={"aot_autograd": aot})(x)
    for written in (*expected[1::2], *found[1::2]):
        written -= 100
    for a, b in zip(expected, found, strict=True):
        assert torch.equal(a, b) and a.stride() == b.stride()


def test_views_of_open_sizes_are_compiled_one_by_one() -> None:
    compiled = torch.compile(
        lambda x: PAIRS["a part and the whole"](x * 2), backend=backend, dynamic=True
    )
    for rows in (3, 5):
        part, whole = compiled(torch.ones(rows, 2))
        whole[1] = 7
        assert part[0].tolist() == [7, 7] and part.shape == (rows - 1, 2)
