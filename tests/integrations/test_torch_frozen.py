"""Modules that do not change any more: calls do not look at them, and tell them apart."""

from __future__ import annotations

from typing import Any

import pytest

import graphc
from graphc.integrations import torch_backend
from support.dynamo import fresh, torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
TABLE = torch.randn(4)


class Scale(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((4,), factor))
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.inner(x * self.scale) + TABLE


@pytest.fixture
def arguments(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of arguments of each call of a compiled graph."""
    counts, original = [], torch_backend._read_directly

    def counted(*given: Any) -> Any:
        found: Any = original(*given)

        def call(*args: Any) -> Any:
            counts.append(len(args))
            return found(*args)

        return found and call

    monkeypatch.setattr(torch_backend, "_read_directly", counted)
    return counts


def frozen(module: Any, **options: Any) -> Any:
    options = {"strict": True, "frozen": True, **options}
    return torch.compile(module, backend=graphc.torch.backend, options=options)


def test_calls_fetch_no_parameters(arguments: list[int]) -> None:
    module, x = Scale(2.0), torch.randn(3, 4)
    fast, before = frozen(module), module(x)
    torch.testing.assert_close(fast(x), before)
    module.scale.mul_(2)  # against the promise: not seen
    torch.testing.assert_close(fast(x), before)
    TABLE.add_(1)  # not in a module: seen, and an argument
    torch.testing.assert_close(fast(x), before + 1)
    assert arguments == [2] * 3
    torch._dynamo.reset()
    torch.testing.assert_close(fast(x), module(x))


def test_modules_of_one_class_are_told_apart(arguments: list[int]) -> None:
    """More of them than Dynamo has code for one function."""
    x, layers = torch.randn(3, 4), [Scale(float(i)) for i in range(10)]
    wanted = [layer(x) for layer in layers]
    fast = [frozen(layer) for layer in layers]
    for _ in range(2):
        for layer, y in zip(fast, wanted, strict=True):
            torch.testing.assert_close(layer(x), y)
    assert len(arguments) == 20


def test_a_function_of_several_modules() -> None:
    first, second, x = Scale(2.0), Scale(3.0), torch.randn(3, 4)

    def both(x: Any) -> Any:
        return first(x) - second(x)

    torch.testing.assert_close(frozen(both)(x), both(x))


def test_what_is_saved_fetches_them(tmp_path: Any) -> None:
    pytest.importorskip("torch._dynamo.aot_compile_types")
    module, x = Scale(2.0), torch.randn(3, 4)
    fast = torch.compile(
        module, backend=graphc.torch.backend, fullgraph=True, options={"frozen": True}
    )
    torch.testing.assert_close(fast.forward.aot_compile(((x,), {}))(module, x), module(x))
