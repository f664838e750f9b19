"""Graphs that PyTorch saves compiled, and runs without capturing them again."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import graphc
from graphc.integrations import torch_backend
from support.dynamo import fresh, torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
pytest.importorskip("torch._dynamo.aot_compile_types")


class Net(torch.nn.Module):
    """A view, results that share memory, one in another order of axes, and one that is a number."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        y = self.linear(x.flatten(1))
        return y, y[0], (y * 2).t(), x.shape[0]


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that Dynamo captures."""
    found, original = [], torch_backend._read_directly

    def counted(*args: Any) -> Any:
        found.append(args)
        return original(*args)

    monkeypatch.setattr(torch_backend, "_read_directly", counted)
    return found


def compiled(module: Any, **kwargs: Any) -> Any:
    return torch.compile(
        module, backend=graphc.torch.backend, options={"strict": True, "report": []}, **kwargs
    )


def check(found: Any, wanted: Any) -> None:
    assert len(found) == len(wanted)
    for y, x in zip(found, wanted, strict=True):
        if not hasattr(x, "shape"):
            assert y == x
            continue
        torch.testing.assert_close(y, x)
        assert y.stride() == x.stride()


def test_what_aot_compile_saves(captured: list[Any], tmp_path: Path) -> None:
    module, x = Net(), torch.randn(4, 3, 2)
    first = compiled(module, fullgraph=True).forward.aot_compile(((x,), {}))
    first.save_compiled_function(str(tmp_path / "saved"))
    torch._dynamo.reset()
    again = torch.compiler.load_compiled_function(io.BytesIO((tmp_path / "saved").read_bytes()))
    check(again(module, x), module(x))
    found = again(module, x)
    found[0].zero_()
    assert not found[1].any()
    other = Net()  # parameters are those of the call
    check(again(other, x), other(x))
    with pytest.raises(RuntimeError, match="GuardManager check failed"):
        again(module, x.double())
    assert len(captured) == 1


def test_what_caching_precompile_saves(
    captured: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    module, x = Net(), torch.randn(4, 3, 2)
    with torch._dynamo.config.patch(caching_precompile=True):
        check(compiled(module)(x), module(x))
        torch.compiler.save_cache_artifacts()
        torch._dynamo.reset()
        fast = compiled(module)
        check(fast(x), module(x))
        module.linear.weight.mul_(2)
        check(fast(x), module(x))
    assert len(captured) == 1
