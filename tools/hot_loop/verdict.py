"""Says in one line what bounds a kernel: its hot loop, and the share of the loop's speed that the kernel reaches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...base.records import dataclass
from ...bench.roofline import Roofline
from ...driver.stages import Compilation
from ...graph_ir.lowering.lower_graph import LoweredModel
from ...targets.isa import Target
from ...targets.microkernels import f32_kernel
from ..kernel_code import CodeMap
from ..profile import KernelTime
from .bound import LoopBound, loop_bound
from .find import Loop
from .mca import Simulated, simulate

OUTSIDE = 0.8
"""Below this share of the bound, the time is spent outside of the loop, or on what no port shows: memory."""


@dataclass(frozen=True)
class Verdict:
    """The bounds of a kernel's hot loop; `share` of them that it reaches, 0 where its multiply-adds are not counted."""

    bound: LoopBound
    share: float

    def __str__(self) -> str:
        found = self.bound
        at = f" at {self.share:.0%}" if 0 < self.share <= 1 else ""
        work = f" for {found.multiply_adds} multiply-adds" if found.multiply_adds else ""
        parts = [
            f"bound by {found.binding}{at}: {found.least:.1f} cycles{work}",
            f"{found.uops} uops, {found.loop.loads} loads, {found.loop.stores} stores",
            spilled(found.loop),
            f"{found.code_bytes} bytes of code",
        ]
        if 0 < self.share < OUTSIDE:
            parts.append("most of the other time is outside of this loop or waits for memory")
        return "; ".join(parts)

    def facts(self) -> dict[str, Any]:
        """Return the same as numbers."""
        found = self.bound
        names = ("uops", "multiply_adds", "code_bytes", "family")
        memory = ("loads", "stores", "spills", "reloads")
        return {
            "verdict": str(self), "bound_by": found.binding, "share": self.share or None,
            "cycles": dict(found.cycles), "ports": dict(found.ports),
            "uops_per_multiply_add": found.uops / found.multiply_adds if found.multiply_adds else None,
            **{name: getattr(found, name) for name in names},
            **{name: getattr(found.loop, name) for name in memory},
        }  # fmt: skip


def spilled(loop: Loop) -> str:
    """Return the vectors that a loop keeps on the stack, in words."""
    if not loop.spills and not loop.reloads:
        return "no spills in the loop"
    return f"{loop.spills} spills and {loop.reloads} reloads in the loop"


def kernel_bound(kernel: str, lowered: LoweredModel, target: Target) -> LoopBound | None:
    """Return the bounds of a kernel's hot loop; None if its code has no loop."""
    code = CodeMap(lowered, target).of(kernel, ("asm",)).texts["asm"]
    return loop_bound(code, target)


def verdicts(
    compilation: Compilation, kernels: Sequence[KernelTime], roofs: Roofline
) -> dict[str, Verdict]:
    """Judge kernels of a profile, by name, without those whose code has no loop.

    Shares are known of contractions on register tiles, whose multiply-adds are those of the loop.
    `roofs`: those of f32, whose peak says how many cycles a second has.
    """
    target, found = compilation.target, {}
    per_cycle = 2 * target.lanes(f32_kernel(target).accumulator) * target.machine.fma_per_cycle
    second = roofs.gflops / per_cycle * 1e9
    for kernel in kernels:
        bound = kernel_bound(kernel.kernel, compilation.lowered, target)
        if bound is None:
            continue
        share = 0.0
        if kernel.seconds and bound.multiply_adds and "tensorize" in kernel.schedule:
            share = (
                kernel.gflop * 1e9 / 2 / bound.multiply_adds * bound.least / second / kernel.seconds
            )
        found[kernel.kernel] = Verdict(bound, share)
    return found


def loop_facts(kernel: str, lowered: LoweredModel, target: Target) -> dict[str, Any] | None:
    """Return the bounds of a kernel that was not measured, as numbers; None if its code has no loop."""
    bound = kernel_bound(kernel, lowered, target)
    return None if bound is None else Verdict(bound, 0.0).facts()


def detail_lines(found: Verdict, target: Target) -> Iterator[str]:
    """Yield every bound, the work of each port, and what llvm-mca says."""
    bound = found.bound
    for name, cycles in bound.cycles.items():
        yield f"{cycles:6.1f} cycles  {name}"
    busy = sorted(bound.ports.items(), key=lambda item: -item[1])
    yield "ports    " + ", ".join(f"{name}: {cycles:.1f}" for name, cycles in busy)
    if bound.multiply_adds:
        yield f"uops     {bound.uops / bound.multiply_adds:.3f} per multiply-add"
    yield f"tables   {bound.family}"
    yield f"llvm-mca {_told(simulate(bound.loop.lines, target))}"


def _told(simulated: Simulated) -> str:
    if simulated.refused:
        return simulated.refused
    return f"{simulated.cycles:.1f} cycles simulated, {simulated.port_cycles:.1f} by ports"
