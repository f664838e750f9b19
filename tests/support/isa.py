"""The CPU the tests run on, and how to pretend a smaller one: `pytest --isa avx2` or GRAPHC_TEST_ISA=avx2."""

from __future__ import annotations

from llvmlite import binding

from graphc.targets.isa import Target

LEVELS = ("generic", "avx2", "avx512")

# The features that a smaller CPU lacks, by the first letters of LLVM's names.
_ABOVE_GENERIC = ("avx", "fma", "f16c", "vaes", "vpclmulqdq")
_ABOVE_AVX2 = ("avx512", "avx10", "amx", "evex512")

_pretended = "native"


def pretend(level: str) -> None:
    """Hide the CPU features above a level (`native` hides none) from `features` and `host_target`."""
    global _pretended
    if level not in ("native", *LEVELS):
        raise ValueError(f"isa level '{level}' is not known; known are native, {', '.join(LEVELS)}")
    _pretended = level


def features() -> frozenset[str]:
    """The CPU's features in LLVM's spelling, without those that are pretended away."""
    hidden = {"generic": _ABOVE_GENERIC, "avx2": _ABOVE_AVX2}.get(_pretended, ())
    present = (name for name, has in binding.get_host_cpu_features().items() if has)
    return frozenset(name for name in present if not name.startswith(hidden))


def level() -> str:
    """The highest of `LEVELS` this CPU runs natively."""
    have = features()
    if have >= {"avx512f", "avx512bw", "avx512dq", "avx512vl"}:
        return "avx512"
    return "avx2" if have >= {"avx2", "fma"} else "generic"


def host_target(isa: str) -> Target:
    """A target with the vector shapes of `isa` whose code runs here, whatever the CPU: LLVM splits the vectors.

    What is pretended away is switched off for LLVM too.
    """
    have = features()
    known = binding.get_host_cpu_features()
    flags = ",".join(f"{'+' if name in have else '-'}{name}" for name in sorted(known))
    return Target(isa).with_features(binding.get_host_cpu_name(), flags)
