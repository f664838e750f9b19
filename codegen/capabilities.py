"""What the emitter may count on in a target, beyond its vector shape."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.target import Target

_IMPLIED = {
    # Every CPU with AVX2 and FMA also has these.
    "avx512": frozenset(("fma", "f16c", "sse4.1", "avx2")),
    "avx2": frozenset(("fma", "f16c", "sse4.1", "avx2")),
    "generic": frozenset(),
}


@dataclass(frozen=True)
class Capabilities:
    """`fma`: fused multiply-add; `half_conversion`: f16 <-> f32; `rounding`: floor, ceil, trunc, round in one
    instruction; `masked_load`: of 32- and 64-bit elements; `masks`: loads and stores of any element;
    `scalef`: multiplication by a power of two in one instruction, for vectors.
    """

    fma: bool
    half_conversion: bool
    rounding: bool
    masked_load: bool
    masks: bool
    scalef: bool


def capabilities(target: Target) -> Capabilities:
    """Read the target's ISA and LLVM features."""
    named = {feature[1:] for feature in target.features.split(",") if feature.startswith("+")}
    has = named | _IMPLIED[target.isa]
    return Capabilities(
        fma="fma" in has,
        half_conversion="f16c" in has,
        rounding="sse4.1" in has,
        masked_load="avx2" in has,
        masks=target.table.has_masks,
        scalef={"avx512f", "avx512vl"} <= named,
    )
