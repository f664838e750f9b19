"""`graphc roofline`: the multiply-add peaks and the bandwidth of each level of memory, beside the description."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...base.dtypes import F32
from ...base.durations import shown_age
from ..model_arguments import add_options
from ..terminal import answer, warn_of_load

if TYPE_CHECKING:
    from ...bench.roofline import Roofline
    from ...targets.isa import Target

HELP = "Measure this machine's compute peaks and memory bandwidths"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_options(parser, "target", "threads")
    parser.add_argument(
        "--fresh", action="store_true", help="measure again, even if the results are stored"
    )
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Print the roofs; measure them if they are not known yet."""
    from dataclasses import asdict

    from ...bench.roofline import default_file, roofline
    from ...codegen.host import target_for
    from ...runtime.threadpool import resolve_threads

    threads = resolve_threads(args.threads)
    warn_of_load(threads)
    target = target_for(args.target)
    found = roofline(target, threads, args.fresh)
    kept = "kept" if default_file().exists() else "could not be kept"
    lines = [
        f"{found.cpu}, {found.isa}, {found.threads} threads",
        *compute_lines(found, target),
        *memory_lines(found, target),
        measured_text(found),
        f"{kept} in {default_file()}",
    ]
    answer(args, asdict(found), lines, 27)
    return 0


def compute_lines(found: Roofline, target: Target) -> list[str]:
    """The peak of each pair of types, beside what the table of microkernels says."""
    lines = [f"{'compute':<8} {found.gflops:7.1f} GFLOP/s"]
    rows = target.table.microkernels
    assumed = {(f"{x.a}x{x.b}", str(x.instruction)): x.rate(target) for x in rows}
    for peak in found.peaks:
        share = f"{peak.gops / found.gflops:.2f} x f32"
        rate = assumed.get((peak.types, str(peak.instruction)), 1.0)
        rates = f"{share}, {rate:g} assumed in matmuls"
        lines.append(f"{peak.types:<8} {peak.gops:7.1f} Gop/s  {peak.instruction}, {rates}")
    return lines


def memory_lines(found: Roofline, target: Target) -> list[str]:
    """The bandwidth of each level of memory, beside what the machine description says."""
    machine = target.machine
    each = 2.0 * target.lanes(F32) * machine.fma_per_cycle  # operations per cycle of a core
    cycles = found.gflops / each  # 1e9 a second, of all threads
    described = {
        "L1": f"{machine.loads_per_cycle * target.table.vector_bits // 8}",
        "L2": f"{machine.l2_bytes_per_cycle:g}",
        "L3": f"{machine.shared_bytes_per_cycle:g}",
        "DRAM": f"{machine.memory_bytes_per_cycle:g}",
    }
    lines = []
    for level in found.levels:
        held = f"up to {level.capacity >> 10} KiB" if level.capacity else "anything larger"
        balance, rate = found.gflops / level.gbytes_per_second, level.gbytes_per_second / cycles
        lines.append(
            f"{level.name:<8} {level.gbytes_per_second:7.1f} GB/s  {held}, binds below "
            f"{balance:.2f} FLOP/byte; {rate:.1f} bytes/cycle, {described[level.name]} assumed"
        )
    return lines


def measured_text(found: Roofline) -> str:
    """Return the time of the measurement, and the spread of its repeats."""
    import time

    age = shown_age(time.time() - found.measured)
    text = f"measured {age}, best two of several within {100 * found.spread:.1f} %"
    busy = "" if found.steady else ": the machine was busy, so they are measured again in a while"
    return text + busy
