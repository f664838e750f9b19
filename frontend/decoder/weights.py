"""The weights of a decoder: packed in blocks or plain, by the names that GGUF gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...base.block_types import Array, BlockType
from ...base.errors import UnsupportedError
from ...base.records import dataclass

BF16 = "bf16"


@dataclass(frozen=True)
class Weight:
    """A tensor of a file: `dims` outermost first; `raw`, u8 [rows, bytes of a row], stays in the mapped file.

    `kind` is a block type, `BF16`, or the NumPy dtype of the elements.
    """

    name: str
    dims: tuple[int, ...]
    kind: BlockType | str
    raw: Array

    def values(self, rows: Array | None = None) -> Array:
        """Return the elements of all rows, or of some: floats as f32, integers as they are."""
        raw = self.raw if rows is None else self.raw[rows]
        dims = self.dims if rows is None else (len(raw), *self.dims[-1:])
        if isinstance(self.kind, BlockType):
            return self.kind.values(np.ascontiguousarray(raw)).reshape(dims)
        if self.kind == BF16:
            wide = np.ascontiguousarray(raw).view("<u2").astype(np.uint32) << 16
            return wide.view(np.float32).reshape(dims)
        plain = np.ascontiguousarray(raw).view(self.kind).reshape(dims)
        return plain.astype(np.float32) if plain.dtype.kind == "f" else plain


Weights = Mapping[str, Weight]
"""Tensors by name: `token_embd.weight`, `blk.0.attn_q.weight`, `blk.0.attn_q.bias` and so on."""


def idle_bytes(weights: Weights, experts_used: int) -> int:
    """Return the bytes of the experts that a token does not go through, which are the tensors of three axes."""
    experts = (one for one in weights.values() if len(one.dims) == 3)
    return sum(one.raw.nbytes // one.dims[0] * (one.dims[0] - experts_used) for one in experts)


def refuse(tensors: Sequence[str], who: str) -> None:
    """Raise UnsupportedError, `who` in front, if there is a tensor that no decoder reads."""
    if tensors:
        more = f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""
        what = f"{who}: the tensors {', '.join(tensors[:3])}{more} are not supported"
        raise UnsupportedError(what, "give a model without them")
