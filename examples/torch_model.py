"""Compile a PyTorch module: as a backend of torch.compile, as a whole, and for a program without PyTorch.

Needs `pip install torch`.
"""

import numpy as np
import torch
from torch import nn

import graphc


class Block(nn.Module):
    """A transformer block: attention and an MLP, each with a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One block on [batch, tokens, width]."""
        batch, tokens, width = x.shape
        parts = self.qkv(self.before_attention(x)).view(batch, tokens, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.before_mlp(x))


torch.manual_seed(0)
block = Block(64, 4).eval()
x = torch.randn(2, 16, 64)

with torch.no_grad():
    expected = block(x)
    # 1. In an existing program. What graphc does not support would run in PyTorch.
    fast = torch.compile(block, backend=graphc.torch.backend)
    torch.testing.assert_close(fast(x), expected, rtol=1e-4, atol=1e-5)

# 2. The whole module, or an error that lists what is not supported.
whole = graphc.torch.compile(block, x)
torch.testing.assert_close(whole(x), expected, rtol=1e-4, atol=1e-5)

# 3. An artifact for a program that has no PyTorch.
graphc.compile(torch.export.export(block, (x,))).save("block.gcm")
(y,) = graphc.load("block.gcm").run(None, {"x": x.numpy()})
np.testing.assert_allclose(y, expected.numpy(), rtol=1e-4, atol=1e-5)
print("torch.compile, graphc.torch.compile and the artifact agree with PyTorch:", tuple(y.shape))
