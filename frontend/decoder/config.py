"""The configuration of a decoder, in the same terms for every format."""

from __future__ import annotations

import math

import numpy as np

from ...base.block_types import Array
from ...base.records import dataclass
from .architectures import Architecture


@dataclass(frozen=True)
class Rotary:
    """Rotary embedding: pair i is rotated by position * frequencies[i]; cos and sin are times `gain`."""

    frequencies: tuple[float, ...]
    gain: float = 1.0

    @staticmethod
    def of(size: int, base: float, divisors: Array | float = 1.0, gain: float = 1.0) -> Rotary:
        """Return the frequencies base**(-2i / size), divided by one number or one for each pair."""
        plain = base ** (-np.arange(0, size, 2, dtype=np.float64) / size)
        return Rotary(tuple((plain / divisors).tolist()), gain)


def yarn_divisors(
    size: int,
    base: float,
    factor: float,
    original: int,
    fast: float = 32.0,
    slow: float = 1.0,
    whole: bool = True,
) -> Array:
    """Return what YaRN divides the frequencies by: 1 where a pair turns `fast` times in the original length, `factor`
    where it turns `slow` times, and a ramp of the inverses between, from a `whole` pair to another."""

    def pair_of(turns: float) -> float:
        return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair_of(fast), pair_of(slow)
    if whole:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    ramp = np.clip((np.arange(size // 2) - low) / max(high - low, 0.001), 0, 1)
    return np.asarray(1 / (1 - ramp + ramp / factor))


def yarn_gain(factor: float, scale: float = 1.0) -> float:
    """Return what YaRN multiplies cos and sin by."""
    return 0.1 * scale * math.log(max(factor, 1.0)) + 1


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and constants of a decoder.

    Attributes:
        name: Of the model, for messages.
        architecture: The row of the table.
        rotates_pairs: Whether rotary embedding turns neighboring elements, instead of those half a head apart.
        vocabulary: Number of tokens.
        width: Elements of an embedding.
        layers: Number of blocks.
        heads: Heads of queries.
        kv_heads: Heads of keys and values, which queries share.
        key_size, value_size: Elements of a head.
        epsilon: Added to the mean of squares in norms.
        context: Largest number of tokens the model was made for.
        rotary, local_rotary: Of layers without and with a window.
        window: Keys that a query of a layer with a window sees, its own among them.
        is_local: Whether each layer has the window.
        rotated: Whether each layer has rotary embedding.
        query_scale: Factor of scores.
        experts_used: Experts that each token goes through, where layers have experts.
        joins_to_one: Whether the weights of these experts sum to 1, instead of those of all.
        score_cap, logit_cap: Limits by cap * tanh(x / cap); 0: none.
    """

    name: str
    architecture: Architecture
    rotates_pairs: bool
    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    epsilon: float
    context: int
    rotary: Rotary
    local_rotary: Rotary
    window: int
    is_local: tuple[bool, ...]
    rotated: tuple[bool, ...]
    query_scale: float
    experts_used: int = 0
    joins_to_one: bool = True
    score_cap: float = 0.0
    logit_cap: float = 0.0

    @property
    def embedding_scale(self) -> float:
        """The factor of embedding rows, an f32."""
        return (
            float(np.float32(math.sqrt(self.width))) if self.architecture.scales_embedding else 1.0
        )

    def keeps_window(self, layer: int) -> bool:
        """Return whether a layer needs only the keys in its window; one layer at least keeps all tokens."""
        return bool(self.window) and self.is_local[layer] and not all(self.is_local)
