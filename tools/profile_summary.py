"""The facts of a profile that are read first: the whole run, and where its time goes by type of op."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from ..base.durations import shown_time
from ..base.records import dataclass
from .profile import KernelTime, Profile

MIN_UNATTRIBUTED = 0.02
"""Smallest share of a run that is shown as unattributed."""

_MATMULS = ("matmul_core", "matmul_nbits")
_MOVEMENT = ("transpose", "reorder", "slice", "concat", "pad", "copy", "broadcast", "reshape")


@dataclass(frozen=True)
class TypeTime:
    """The kernels of one type together: `of_roof` is the share of their roofs that they reach."""

    type: str
    seconds: float
    kernels: int
    gflop: float
    nbytes: int
    of_roof: float


@dataclass(frozen=True)
class Headline:
    """One run: seconds, GFLOP/s and GB/s, and the share of it that the roofs of all kernels allow."""

    seconds: float
    gflops: float
    gbytes_per_second: float
    of_roof: float


def headline(profile: Profile) -> Headline:
    """Return the facts about the whole run."""
    seconds = max(profile.seconds, 1e-12)
    return Headline(
        profile.seconds,
        sum(k.gflop for k in profile.kernels) / seconds,
        sum(k.nbytes for k in profile.kernels) / 1e9 / seconds,
        sum(k.roof_seconds for k in profile.kernels) / seconds,
    )


def unattributed(profile: Profile) -> float:
    """Return the seconds of the run in no kernel and not outside kernels, 0 if they are few.

    The median of whole runs differs from the sum of the medians of kernels where runs vary, as on a loaded machine.
    """
    spent = sum(k.seconds for k in profile.kernels) + profile.outside
    missing = profile.seconds - spent
    return missing if missing > MIN_UNATTRIBUTED * profile.seconds else 0.0


def by_type(profile: Profile) -> list[TypeTime]:
    """Return the time of each type of kernel, the longest first."""
    groups: dict[str, list[KernelTime]] = defaultdict(list)
    for kernel in profile.kernels:
        groups[type_of(kernel.ops)].append(kernel)
    found = [_together(name, kernels) for name, kernels in groups.items()]
    return sorted(found, key=lambda one: -one.seconds)


Cell = tuple[str, float | None]
"""Text of a table, and the number that its column is sorted by; None for a name."""


def kernel_cells(profile: Profile) -> list[dict[str, Cell]]:
    """Return the rows of a table of kernels, the longest first, by heading."""
    busy = profile.busy()
    kernels = sorted(profile.kernels, key=lambda kernel: -kernel.seconds)
    return [
        {
            "node": (k.node, None),
            "type": (type_of(k.ops), None),
            "roof": (k.roof, None),
            "busy": _percent(busy.get(k.node, 0.0), 0),
            **_measured_cells(k, profile),
        }
        for k in kernels
    ]


def type_cells(profile: Profile) -> list[dict[str, Cell]]:
    """Return the rows of a table of the types of ops, the longest first, by heading; then the time in no kernel."""
    rows: list[dict[str, Cell]] = [
        {
            "op type": (x.type, None),
            "kernels": (str(x.kernels), float(x.kernels)),
            **_measured_cells(x, profile),
        }
        for x in by_type(profile)
    ]
    others = {"outside kernels": profile.outside, "unattributed: runs vary": unattributed(profile)}
    for name, seconds in others.items():
        if seconds or name == "outside kernels":
            rows.append({"op type": (name, None), **_time_cells(seconds, profile)})
    return rows


def _measured_cells(x: KernelTime | TypeTime, profile: Profile) -> dict[str, Cell]:
    seconds = max(x.seconds, 1e-12)
    gflops, gbytes = x.gflop / seconds, x.nbytes / 1e9 / seconds
    return {
        **_time_cells(x.seconds, profile),
        "GFLOP/s": (f"{gflops:.1f}", gflops),
        "GB/s": (f"{gbytes:.1f}", gbytes),
        "of roof": _percent(x.of_roof, 0),
    }


def _time_cells(seconds: float, profile: Profile) -> dict[str, Cell]:
    share = seconds / max(profile.seconds, 1e-12)
    return {"time": (shown_time(seconds), seconds), "share": _percent(share, 1)}


def _percent(share: float, digits: int) -> Cell:
    return f"{100 * share:.{digits}f} %", share


def profile_facts(profile: Profile) -> dict[str, Any]:
    """Return the profile as plain values; iterations of parallel loops are only in the trace."""
    facts = asdict(replace(profile, tasks=()))
    del facts["tasks"]
    busy = profile.busy()
    for fact, kernel in zip(facts["kernels"], profile.kernels, strict=True):
        fact["of_roof"], fact["busy"] = kernel.of_roof, busy.get(kernel.node, 0.0)
    whole = asdict(headline(profile))
    return {**facts, **whole, "by_type": [asdict(one) for one in by_type(profile)]}


def _together(name: str, kernels: Sequence[KernelTime]) -> TypeTime:
    seconds = sum(k.seconds for k in kernels)
    return TypeTime(
        name,
        seconds,
        len(kernels),
        sum(k.gflop for k in kernels),
        sum(k.nbytes for k in kernels),
        sum(k.roof_seconds for k in kernels) / seconds if seconds else 0.0,
    )


def type_of(ops: Sequence[str]) -> str:
    """Return the type of a kernel by the ops it computes ("relu act1"): that of its most expensive op."""
    names = [text.partition(" ")[0] for text in ops]
    matmuls = sum(name in _MATMULS for name in names)
    if matmuls:
        return "attention" if matmuls > 1 else "matmul"
    for part, kind in (("convolution", "convolution"), ("pool", "pool")):
        if any(part in name for name in names):
            return kind
    reduced = [name for name in names if name.startswith("reduce_")]
    if reduced:
        if "exp" in names:
            return "softmax"
        return "normalization" if "rsqrt" in names or "sqrt" in names else "reduction"
    if any(name in ("gather", "scatter", "top_k", "scan") for name in names):
        return next(name for name in names if name in ("gather", "scatter", "top_k", "scan"))
    if all(name in _MOVEMENT for name in names):
        return "data movement"
    return names[0] if len(names) == 1 and not _is_elementwise(names[0]) else "elementwise"


def _is_elementwise(name: str) -> bool:
    from ..graph_ir.ir.registry import lookup
    from ..graph_ir.ops.elementwise import Elementwise

    return issubclass(lookup(name), Elementwise)
