"""The architectures of decoders: what their arithmetic needs and no file says. A new one is a row.

What a file says (sizes, bases of rotation, windows) is in its `DecoderConfig`; what its tensors say (biases, norms of
queries and keys, norms after attention and feed-forward, fused projections, a head that is the embedding) is read off
their presence.
"""

from __future__ import annotations

from ...base.errors import UnsupportedError
from ...base.records import dataclass
from ...base.suggestion import suggestion


@dataclass(frozen=True)
class Architecture:
    """A row of the table.

    Attributes:
        rotates_pairs: In GGUF files the rows of Q and K are stored for rotary embedding of elements 2i and 2i + 1,
            instead of i and i + half.
        unrotated_every: Of every n layers the last has no rotary embedding; 0: all have it.
        gelu: The activation is GELU in its tanh form instead of SiLU.
        scales_embedding: Embeddings are multiplied by the root of their width.
        global_every: Of every n layers all but the last see a window only; 1: no layer has a window.
        local_base: Base of the rotary frequencies in layers with a window; 0: that of the others.
        scales_by_width_at: With this number of layers, scores are divided by sqrt(width / heads), else by the root of
            the head's size.
    """

    rotates_pairs: bool = False
    unrotated_every: int = 0
    gelu: bool = False
    scales_embedding: bool = False
    global_every: int = 1
    local_base: float = 0.0
    scales_by_width_at: int = 0

    def rotated(self, layers: int) -> tuple[bool, ...]:
        """Return whether each layer has rotary embedding."""
        every = self.unrotated_every
        return tuple(not every or (layer + 1) % every != 0 for layer in range(layers))


ARCHITECTURES = {
    "llama": Architecture(rotates_pairs=True),
    "qwen2": Architecture(),
    "qwen3": Architecture(),
    "qwen3moe": Architecture(),
    "phi3": Architecture(),
    "smollm3": Architecture(rotates_pairs=True, unrotated_every=4),
    "gemma2": Architecture(gelu=True, scales_embedding=True, global_every=2, scales_by_width_at=46),
    "gemma3": Architecture(
        gelu=True, scales_embedding=True, global_every=6, local_base=10_000.0, scales_by_width_at=62
    ),
}
"""Rows by the name in `general.architecture` of GGUF files. Mistral and SmolLM 1 and 2 are written as `llama`."""


def architecture(name: str, who: str) -> Architecture:
    """Return the row of a name. UnsupportedError, `who` in front, where there is none."""
    found = ARCHITECTURES.get(name)
    if found is None:
        near = suggestion(name, sorted(ARCHITECTURES))
        known = ", ".join(ARCHITECTURES)
        raise UnsupportedError(
            f"{who}: architecture '{name}' is not supported, known are {known}",
            near or "give another model",
        )
    return found
