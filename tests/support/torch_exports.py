"""Small PyTorch networks, exported with the pnnx tool as their owners would; both packages must be there."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pnnx
import torch
from torch import nn
from torch.nn import functional as F


class Perceptron(nn.Module):
    """Two linear layers, GELU, layer norm and softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(16, 32), nn.LayerNorm(32), nn.Linear(32, 8)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.second(self.norm(F.gelu(self.first(x)))), -1)


class Convnet(nn.Module):
    """conv, batch norm, ReLU, pool, linear."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.body(x)


class Residual(nn.Module):
    """Two convolutions beside a strided 1x1."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.Conv2d(16, 16, 3, 1, 1)
        self.side = nn.Conv2d(8, 16, 1, 2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(16) for _ in range(3))

    def forward(self, x: Any) -> Any:
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + self.norms[2](self.side(x)))


class Separable(nn.Module):
    """Depthwise, pointwise, and channels weighted by what they hold (SE)."""

    def __init__(self) -> None:
        super().__init__()
        self.deep, self.point = nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.Conv2d(8, 12, 1)
        self.weigh = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(12, 4, 1), nn.ReLU(), nn.Conv2d(4, 12, 1), nn.Hardsigmoid()
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        y = F.hardswish(self.point(F.hardswish(self.deep(x))))
        return y * self.weigh(y)


class Sequence(nn.Module):
    """A bidirectional LSTM with a linear layer behind its last step, and its states."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, 1, batch_first=True, bidirectional=True)
        self.last = nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        y, (h, c) = self.lstm(x)
        return self.last(y[:, -1]), h, c


class Encoder(nn.Module):
    """A transformer encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.layer(x)


class Unet(nn.Module):
    """One step down and up again, with interpolation, a transposed convolution and skips."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.c, self.up = nn.Conv2d(16, 16, 3, padding=1), nn.ConvTranspose2d(16, 8, 2, 2)
        self.d, self.out = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 2, 1)

    def forward(self, x: Any) -> Any:
        a = F.relu(self.a(x))
        b = F.relu(self.b(F.max_pool2d(a, 2)))
        c = F.relu(self.c(F.avg_pool2d(b, 2)))
        c = F.interpolate(c, scale_factor=2, mode="bilinear", align_corners=False) + b
        d = F.relu(self.d(torch.cat([self.up(c), a], 1)))
        return F.interpolate(self.out(d), size=(24, 40), mode="nearest")


NETWORKS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (Perceptron, (4, 16)),
    "convnet": (Convnet, (1, 3, 16, 16)),
    "residual": (Residual, (1, 8, 10, 10)),
    "separable": (Separable, (1, 8, 9, 9)),
    "lstm": (Sequence, (2, 5, 8)),
    "encoder": (Encoder, (2, 7, 32)),
    "unet": (Unet, (1, 3, 16, 24)),
}
"""Name to network and the shape of its input."""


def export(name: str, folder: Path) -> tuple[Path, Any, list[Any]]:
    """The path of NETWORKS[name] as PNNX, an input, and what PyTorch computes of it."""
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    network = make().eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):  # fresh statistics would change nothing
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    x = torch.rand(shape)
    with torch.no_grad(), _inside(folder):
        y = network(x)
        # The tool also writes a Python program, and loads it: for the encoder it is not valid Python.
        with contextlib.suppress(SyntaxError):
            pnnx.export(network, str(folder / f"{name}.pt"), (x,))
    results = list(y) if isinstance(y, tuple) else [y]
    return folder / f"{name}.pnnx.param", x.numpy(), [r.numpy() for r in results]


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """The tool leaves files in the working directory."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
