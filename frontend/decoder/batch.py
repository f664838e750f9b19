"""The graph of a decoder for one new token of each of several sequences, which share a pass over the weights.

    lengths         s64 [B]                        old tokens of each sequence
    embeddings      f32 [B, 1, width]
    past_key_0      f32 [B, kv_heads, R, size]     room for R tokens; and past_value_0, of every layer
    logits          f32 [B, 1, vocabulary]
    present_key_0   f32 [B, kv_heads, R, size]

B and R are dynamic. Row `lengths[b]` of each cache gets the new token; rows behind it may hold anything. Each present
output shares the memory of its past input.
"""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import F32, S64, DType
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .caches import Cache
from .config import DecoderConfig
from .graph import Decoder
from .weights import Weights

LENGTHS = "lengths"


def batch_graph(
    config: DecoderConfig, weights: Weights, sequences: Size, room: Size, cache: DType = F32
) -> Graph:
    """Return the graph of a decoder for a token of each of `sequences`, with caches of `room` tokens. Raise UserError
    for a missing or misshapen weight."""
    return _BatchDecoder(config, weights, sequences, room, cache).graph()


class _BatchDecoder(Decoder):
    def __init__(
        self, config: DecoderConfig, weights: Weights, sequences: Size, room: Size, cache: DType
    ) -> None:
        super().__init__(config, weights, sequences, room, room, cache)
        self.outer = sequences, 1
        dims = (sequences,)
        self._old = self.build.graph.make_input(LogicalTensor(S64, dims), LENGTHS)
        self._all = self.build.helper("add", self._old, self.build.constant(1, S64))

    def select_rows(self, count: Size) -> GraphTensor | None:
        """All logits are wanted."""
        return None

    def past_of(self, cache: Cache) -> LogicalTensor:
        """Return the type of a cache: layers with a window have the same room."""
        dims = (self.outer[0], self.config.kv_heads, self.past, cache.size)
        return LogicalTensor(cache.dtype, dims)

    def grown(self, past: GraphTensor, new: GraphTensor) -> GraphTensor:
        """Return a cache in which the new tokens replace a row of each sequence."""
        return self.build.helper("update_slice", past, new, self._old, axes=(2,))

    def lengths(self, layer: int) -> GraphTensor:
        """Return the keys of each sequence with the new one."""
        return self._all

    def positions(self) -> GraphTensor:
        """Return the position of each new token."""
        return self.build.reshaped(self._old, (self.outer[0], 1, 1))
