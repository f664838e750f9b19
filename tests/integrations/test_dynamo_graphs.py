"""Dynamo's graphs read as they are, without AOTAutograd, and those whose writes and shared memory only it resolves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import graphc
from graphc.base.errors import UserError
from graphc.integrations import torch_backend
from support.dynamo import fresh, torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
F: Any = torch.nn.functional


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that AOTAutograd traces."""
    from torch._dynamo.backends import common

    found, original = [], common.aot_autograd

    def counted(**kwargs: Any) -> Any:
        if "inference_compiler" in kwargs:  # not of another backend, which PyTorch declares
            found.append(kwargs)
        return original(**kwargs)

    monkeypatch.setattr(common, "aot_autograd", counted)
    return found


def layers(x: Any) -> Any:
    """Functions, modules' and in place, whose arguments have names."""
    y = F.relu(F.conv2d(x, torch.ones(3, 3, 3, 3) / 9, None, (1, 1), padding=1), inplace=True)
    y += 1
    y.mul_(0.5).clamp_(max=2.0)
    pooled = F.max_pool2d(y, 2) + F.adaptive_avg_pool2d(y, (2, 2))
    z = F.layer_norm(F.hardswish(pooled), (2, 2), eps=1e-3).flatten(1).float()
    z = F.dropout(1.0 - z, 0.3, False, True)
    return F.softmax(z, -1), torch.std(z, -1), F.gelu(z, approximate="tanh")


def elements(x: Any) -> Any:
    """Indices of all kinds, views, and constants."""
    rows = torch.arange(2).multiply(1)
    a = x[:, None, 1, ..., ::2] + x[:, 0:1, -1:, 1:3]
    b = x[..., rows].sum((2, 3)), x[rows, :, rows]
    c = torch.einsum("bchw,bchv->bhwv", x, x).split([1, 3], dim=1)[1].mT
    d = torch.cat([torch.tensor([], dtype=torch.float32), x[0, 0, 0].view(4)]) * torch.tensor(2.5)
    e = (x > 0.2) & ~(x.abs() < 0.5) | (x.long() == 1)
    return (
        a,
        *b,
        c.reshape(2, -1),
        d,
        e,
        x.permute(0, 2, 3, 1).expand(2, 4, 4, 3) @ torch.ones(3, 1),
    )


def flags(x: Any) -> Any:
    """A number is not a flag: the deviation along axis 0, not that without Bessel's correction."""
    row = x[0, 0, 0] * 1
    return row.std(0), row.var(0)


def behind(x: Any) -> Any:
    """The tensor of a method is the second argument of the operator."""
    return x.where(x > 0, x - 3), (x * 1).where(x > 0, 2.0)


def renamed(x: Any) -> Any:
    """The tensor that is written to has two names, and the older one is read again."""
    y = x * 2
    z = y.relu_()
    z.add_(1)
    return y * z


def reads_the_base(x: Any) -> Any:
    y = x * 2
    y.view(-1)[1:].zero_()
    return y + 1


def reads_a_view(x: Any) -> Any:
    y = x * 2
    row = y[0]
    y.add_(1)
    return row + 1, y.sum()


def writes_to_inputs(x: Any) -> Any:
    x.mul_(2)
    x[0] = 1
    return x + 1


def shares(x: Any) -> Any:
    y = torch.relu(x)
    return y, y[:, 0], x.view(-1)


def views(x: Any) -> Any:
    y = torch.relu(x)
    return y, y[:, 0], y.mT


def maps(x: Any) -> Any:
    return torch.vmap(torch.dot, (0, None))(x.flatten(1), x[0].flatten())


def converts(x: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return (x @ x).float()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("function", "traced"),
    [
        *((f, 0) for f in (layers, elements, flags, behind, renamed, views)),
        *((f, 1) for f in (reads_the_base, reads_a_view, writes_to_inputs, shares, maps)),
        (converts, 1),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_graphs_as_dynamo_gives_them(
    function: Callable[[Any], Any], traced: int, traces: list[Any]
) -> None:
    """Results and writes are right; the same through AOTAutograd, where they did not need it."""
    x = torch.randn(2, 3, 4, 4)
    wanted_x, close = x.clone(), torch.testing.assert_close
    wanted = function(wanted_x)
    ways: list[tuple[dict[str, Any], int]] = [({}, traced), ({"aot_autograd": True}, 1)]
    for options, count in ways[: 2 - traced]:
        torch._dynamo.reset()
        traces.clear()
        mine = x.clone()
        found = torch.compile(function, backend=graphc.torch.backend, options=options)(mine)
        close(found, wanted, rtol=1e-2 if function is converts else 1e-5, atol=1e-5)
        close(mine, wanted_x)
        assert len(traces) == count


def test_regions_with_gradients_and_other_code_go_to_autograd(traces: list[Any]) -> None:
    """Turning gradients off changes nothing where they are off."""

    def turned_off(x: Any) -> Any:
        with torch.no_grad():
            y = torch.relu(x)
        return y * 2

    x = torch.randn(3)
    fast = torch.compile(turned_off, backend=graphc.torch.backend)
    torch.testing.assert_close(fast(x), turned_off(x))
    assert not traces


def test_what_is_misread_goes_to_autograd(
    traces: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader may find arguments wrong that are not, as Dynamo gives them otherwise."""

    def misread(module: Any) -> Any:
        raise UserError("x must have 3 axes, got 1")

    monkeypatch.setattr(torch_backend, "as_aten", misread)
    x = torch.randn(3)
    found = torch.compile(torch.relu, backend=torch_backend.backend)(x)
    torch.testing.assert_close(found, torch.relu(x))
    assert len(traces) == 1
