"""Architectures through torch.compile: one graph each, all of it compiled, with PyTorch's results."""

from __future__ import annotations

from typing import Any

import pytest

import graphc
from support import architectures
from support.dynamo import fresh, torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself


def tensors(results: Any) -> list[Any]:
    return [x for x in torch.utils._pytree.tree_leaves(results) if isinstance(x, torch.Tensor)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", architectures.names())
def test_is_compiled_whole(name: str) -> None:
    module, given = architectures.network(torch, name)
    options = {"strict": True}
    compiled = torch.compile(module, backend=graphc.torch.backend, options=options, fullgraph=True)
    with torch.no_grad():
        found, wanted = tensors(compiled(**given)), tensors(module(**given))
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()))
