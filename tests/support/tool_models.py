"""Small models for the tools that write files: an MLP, a network of convolutions, attention and an LSTM, in PyTorch.

Imported where a tool is installed and graphc need not be.
"""

from __future__ import annotations

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


MODELS = {"mlp": mlp, "conv": Convolutions, "attention": Attention, "lstm": Recurrent}
SHAPES = {
    "mlp": (4, FEATURES),
    "conv": (2, 3, 12, 12),
    "attention": (2, 7, FEATURES),
    "lstm": (2, 6, FEATURES),
}


def model_and_input(name: str) -> tuple[nn.Module, Any]:
    """Return a model of this name with its weights, and an input."""
    torch.manual_seed(0)
    return MODELS[name]().eval(), torch.randn(SHAPES[name])
