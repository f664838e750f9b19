"""Control flow of exported programs and of Dynamo's graphs: branches and loops are ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphc
from graphc.integrations.torch_backend import backend
from support.dynamo import fresh, torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
Module: Any = torch.nn.Module


class Branches(Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        def yes(x: Any) -> Any:
            return self.linear(x), x + 1

        def no(x: Any) -> Any:
            small = torch.cond(x.min() < -9, lambda x: x.sin(), lambda x: x.cos(), (x,))
            return small * 2, x - 1

        return torch.cond(x.sum() > 0, yes, no, (x,))


class Loop(Module):
    def forward(self, x: Any) -> Any:
        from torch._higher_order_ops.while_loop import while_loop

        def more(i: Any, y: Any) -> Any:
            return (i < 5) & (y.abs().max() < 9)

        return while_loop(more, lambda i, y: (i + 1, y * 1.5 + i), (torch.tensor(0), x))


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "whole": lambda module, x: graphc.torch.compile(module, x),
    "dynamo": lambda module, x: torch.compile(module, backend=backend, options={"strict": True}),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("module", [Branches(), Loop()], ids=["branches", "loop"])
def test_what_runs_depends_on_the_data(module: Any, way: str) -> None:
    fast = WAYS[way](module, torch.ones(3, 4))
    for x in (torch.ones(3, 4), -torch.ones(3, 4), torch.full((3, 4), -10.0), torch.rand(3, 4)):
        for mine, theirs in zip(fast(x), module(x), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_a_part_that_is_not_supported_is_refused_by_name() -> None:
    def roots(x: Any) -> Any:
        return torch.cond(
            x.sum() > 0, lambda x: torch.special.airy_ai(x)[0], lambda x: x[0] + 1, (x,)
        )

    with pytest.raises(
        graphc.UnsupportedError, match="'true_graph_0', where special_airy_ai is not"
    ):
        graphc.torch.compile(roots, torch.eye(3))
