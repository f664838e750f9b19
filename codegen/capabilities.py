"""The capabilities of a target that the emitter relies on, beyond its vector shape."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..base.records import dataclass
from ..targets.isa import VECTOR_INSTRUCTIONS, Target

Intrinsics = Mapping[int, str]
"""LLVM's names of the instructions of one operation, by a width."""


@dataclass(frozen=True)
class Capabilities:
    """`fma`: fused multiply-add; `half_conversion`: f16 <-> f32; `rounding`: floor, ceil, trunc, round in one
    instruction; `masks`: loads and stores of any element; `vector_bits`: bits of the vectors that locals are stored in;
    `index_scales`: as in `Isa`.

    The others are intrinsics. By the bytes of a vector: `dot_bytes` of u8 x s8 and `dot_signed_bytes` of s8 x s8;
    `dot_bf16`; `pair_dots` for the sums of two s16 multiplications, `byte_pairs` for those of u8 x s8 in 16 bits,
    saturated; `lookups` in a table of 256 bytes. By lanes of f32: `scalef` multiplies by a power of two, `picks` takes
    lanes by an index each, `nearest` rounds to s32. By the bits of an element: `masked_loads`.
    """

    fma: bool
    half_conversion: bool
    rounding: bool
    masks: bool
    vector_bits: int
    index_scales: tuple[int, ...]
    masked_loads: Intrinsics
    scalef: Intrinsics
    dot_bytes: Intrinsics
    dot_signed_bytes: Intrinsics
    dot_bf16: Intrinsics
    pair_dots: Intrinsics
    byte_pairs: Intrinsics
    picks: Intrinsics
    nearest: Intrinsics
    lookups: Intrinsics


@cache
def capabilities(target: Target) -> Capabilities:
    """Read the target's ISA and LLVM features."""
    named = {feature[1:] for feature in target.features.split(",") if feature.startswith("+")}
    has = named | target.table.implied
    return Capabilities(
        fma="fma" in has,
        half_conversion="f16c" in has,
        rounding=not has.isdisjoint(("sse4.1", "rounding")),
        masks=target.table.has_masks,
        vector_bits=target.table.vector_bits,
        index_scales=target.table.index_scales,
        masked_loads=_intrinsics("masked_loads", has),
        scalef=_intrinsics("scalef", named),
        dot_bytes=_intrinsics("dot_bytes", named),
        dot_signed_bytes=_intrinsics("dot_signed_bytes", named),
        dot_bf16=_intrinsics("dot_bf16", named),
        pair_dots=_intrinsics("pair_dots", named),
        byte_pairs=_intrinsics("byte_pairs", named),
        picks=_intrinsics("picks", named),
        nearest=_intrinsics("nearest", has),
        lookups=_intrinsics("lookups", has),
    )


def _intrinsics(operation: str, features: set[str] | frozenset[str]) -> Intrinsics:
    """Return the intrinsics of an operation that the features allow."""
    rows = [row for row in VECTOR_INSTRUCTIONS if row.operation == operation]
    return {
        n: x for row in rows if features.issuperset(row.needs) for n, x in row.intrinsics.items()
    }
