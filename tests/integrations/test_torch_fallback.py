"""torch.compile where compiling ends in an error: PyTorch's result, and one line that names the error."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import pytest

import graphc
from graphc.base.errors import InternalError
from graphc.frontend.torch import fx_graph
from graphc.integrations import torch_backend
from support.dynamo import fresh, torch  # noqa: F401

common: Any = importlib.import_module("torch._dynamo.backends.common")
# Before the tests replace a function that it calls.
importlib.import_module("torch._dynamo.backends.debugging")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
Module: Any = torch.nn.Module


class Sized(Module):
    def forward(self, x: Any) -> Any:
        return torch.relu(x) + x.shape[0]


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [TypeError, InternalError, graphc.UnsupportedError])
@pytest.mark.parametrize("where", ["read_nodes", "compile_model", "layouts_of", "aot_autograd"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_error_of_any_kind_leaves_the_graph_to_pytorch(
    where: str,
    kind: type[Exception],
    dynamic: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def planted(*_: Any, **__: Any) -> Any:
        raise kind("planted error\nand more")

    owner = {"read_nodes": fx_graph, "aot_autograd": common}.get(where, torch_backend)
    monkeypatch.setattr(owner, where, planted)
    options = {"aot_autograd": True} if where == "aot_autograd" else {}
    module, x, report = Sized(), torch.randn(3, 4), list[Any]()
    fast = torch.compile(
        module, backend=graphc.torch.backend, options={**options, "report": report}, dynamic=dynamic
    )
    with caplog.at_level(logging.WARNING, "graphc"):
        torch.testing.assert_close(fast(x), module(x), rtol=0, atol=0)
    (message,) = {r.getMessage() for r in caplog.records if r.name.startswith("graphc")}
    assert message.startswith(f"the graph runs in eager: {kind.__name__}: planted error")
    if kind is not graphc.UnsupportedError:
        assert "; reproducer: " in message
    torch._dynamo.reset()
    strict = torch.compile(
        module, backend=graphc.torch.backend, options={**options, "strict": True}, dynamic=dynamic
    )
    with pytest.raises(Exception, match="planted error"):
        strict(x)
