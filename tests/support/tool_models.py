"""Small models for the tools that write files, in PyTorch: an MLP, attention, an encoder layer, recurrent layers, and
networks of convolutions (plain, residual, a decoder, of one axis).

Imported where a tool is installed and graphc need not be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

FEATURES = 16


class Attention(nn.Module):
    """Self-attention of four heads."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(FEATURES, 3 * FEATURES)
        self.out = nn.Linear(FEATURES, FEATURES)

    def forward(self, x: Any) -> Any:
        rows, length, _ = x.shape
        parts = self.qkv(x).reshape(rows, length, 3, 4, FEATURES // 4).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        scores = torch.softmax(q @ k.transpose(-1, -2) / 2, -1)
        return self.out((scores @ v).transpose(1, 2).reshape(rows, length, FEATURES))


class Recurrent(nn.Module):
    """An LSTM and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, 16, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0])


def mlp() -> nn.Module:
    """Return two layers."""
    return nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 5))


class Convolutions(nn.Module):
    """Two convolutions, one of them strided, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.head = nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        x = F.relu(self.second(F.relu(self.first(x))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Encoder(nn.Module):
    """A transformer layer with norms before, and GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(FEATURES) for _ in range(2))
        self.q, self.k, self.v, self.out = (nn.Linear(FEATURES, FEATURES) for _ in range(4))
        self.up, self.down = nn.Linear(FEATURES, 64), nn.Linear(64, FEATURES)

    def forward(self, x: Any) -> Any:
        rows, length, _ = x.shape
        y = self.norms[0](x)
        heads = [
            layer(y).reshape(rows, length, 2, 8).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        ]
        seen = F.scaled_dot_product_attention(*heads).transpose(1, 2)
        x = x + self.out(seen.reshape(rows, length, FEATURES))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Residual(nn.Module):
    """An inverted residual with batch norms, a depthwise convolution and squeeze and excitation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.depthwise = nn.Sequential(
            nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.SiLU(),
        )  # fmt: skip
        self.squeeze, self.excite = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.project = nn.Conv2d(16, 8, 1)
        self.head = nn.Conv2d(24, 4, 1)

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        y = self.depthwise(x)
        weights = self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1))))
        z = x + self.project(y * torch.sigmoid(weights))
        return self.head(torch.cat((z, x, F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, 1)), 1)).mean(
            (2, 3)
        )


class Decoder(nn.Module):
    """A small U-Net: max pool, a transposed convolution, resizing and a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(19, 2, 1)

    def forward(self, x: Any) -> Any:
        y = F.leaky_relu(self.down(x), 0.1)
        small = F.relu(self.middle(F.max_pool2d(y, 2)))
        wide = F.interpolate(small, scale_factor=2, mode="bilinear")
        return torch.tanh(self.last(torch.cat((self.up(small), wide, x), 1)))


class Gated(nn.Module):
    """A GRU in both directions and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(FEATURES, 8, bidirectional=True), nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.gru(x)[0])


class Temporal(nn.Module):
    """Dilated convolutions of one axis, group norm and PReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(8, 16, 3, padding=2, dilation=2), nn.GroupNorm(4, 16)
        self.act, self.second = nn.PReLU(16), nn.Conv1d(16, 8, 1, groups=2)

    def forward(self, x: Any) -> Any:
        return x + self.second(self.act(self.norm(self.first(x))))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (4, FEATURES)),
    "conv": (Convolutions, (2, 3, 12, 12)),
    "attention": (Attention, (2, 7, FEATURES)),
    "lstm": (Recurrent, (2, 6, FEATURES)),
    "encoder": (Encoder, (2, 7, FEATURES)),
    "residual": (Residual, (2, 3, 12, 12)),
    "decoder": (Decoder, (2, 3, 12, 12)),
    "gru": (Gated, (6, 2, FEATURES)),
    "temporal": (Temporal, (2, 8, 11)),
}
"""Modules, and the shapes of their inputs."""


def model_and_input(name: str) -> tuple[nn.Module, Any]:
    """Return a model of this name with its weights, and an input."""
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = make()
    with torch.no_grad():
        model(torch.randn(shape))  # batch norms of other than 0 and 1
    return model.eval(), torch.randn(shape)
