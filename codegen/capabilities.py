"""The capabilities of a target that the emitter relies on, beyond its vector shape."""

from __future__ import annotations

from ..base.records import dataclass
from ..targets.isa import Target


@dataclass(frozen=True)
class Capabilities:
    """`fma`: fused multiply-add; `half_conversion`: f16 <-> f32; `rounding`: floor, ceil, trunc, round in one
    instruction; `masked_load`: of 32- and 64-bit elements; `masks`: loads and stores of any element;
    `scalef`: multiplication by a power of two in one instruction, for vectors. Dot products in one instruction:
    `dot_bytes` are the bytes of a vector for which u8 x s8 has one, `dot_bf16` those for bf16, `pair_dots` for the
    sums of two s16 multiplications, `picks` lanes of the f32 vectors that an index each can pick, `nearest` lanes of
    those that one instruction rounds to s32. `vector_bits`: bits of the vectors that locals are stored in.
    `table_bytes`: how many bytes are looked up in a table of 256 at once, 0 for one at a time.
    """

    fma: bool
    half_conversion: bool
    rounding: bool
    masked_load: bool
    masks: bool
    scalef: bool
    dot_bytes: frozenset[int] = frozenset()
    dot_bf16: frozenset[int] = frozenset()
    pair_dots: frozenset[int] = frozenset()
    picks: frozenset[int] = frozenset()
    nearest: frozenset[int] = frozenset((4,))
    table_bytes: int = 0
    vector_bits: int = 512


def capabilities(target: Target) -> Capabilities:
    """Read the target's ISA and LLVM features."""
    named = {feature[1:] for feature in target.features.split(",") if feature.startswith("+")}
    has = named | target.table.implied
    return Capabilities(
        fma="fma" in has,
        half_conversion="f16c" in has,
        rounding=not has.isdisjoint(("sse4.1", "rounding")),
        masked_load="avx2" in has,
        masks=target.table.has_masks,
        scalef={"avx512f", "avx512vl"} <= named,
        dot_bytes=_widths(named, ("avx512vnni", _EVERY), ("avxvnni", _NARROW)),
        dot_bf16=_widths(named, ("avx512bf16", _EVERY)),
        picks=_widths(named, ("avx512f", (8, 16)), ("avx2", (8,))),
        nearest=frozenset(() if target.table.triple else (4,))
        | _widths(has, ("avx512f", (16,)), ("avx2", (8,))),
        pair_dots=_widths(named, ("avx512bw", _EVERY), ("avx2", _NARROW)),
        vector_bits=target.table.vector_bits,
        table_bytes=64 if "avx512vbmi" in named else 32 if "avx2" in has else 0,
    )


_EVERY, _NARROW = (16, 32, 64), (16, 32)


def _widths(named: set[str], *rows: tuple[str, tuple[int, ...]]) -> frozenset[int]:
    """Bytes of the vectors that the features present have an instruction for."""
    return frozenset(width for feature, widths in rows if feature in named for width in widths)
