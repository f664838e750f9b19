"""Measures the roofs of this machine: multiply-add peaks, and read bandwidth of each level of memory.

A kernel can be no faster than its operations at the compute peak, and no faster than its operands read once from
the nearest level that holds all of them. Measured once per CPU, target and thread count, and stored in the user's
cache folder.

Other programs can only make a roof look lower, so each is measured several times and the highest value counts. The
spread is stored too: roofs measured on a busy machine are measured again at the next request.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from ..base.aligned_memory import aligned_empty, large_alignment
from ..base.dtypes import BF16, F32, F64, S8, U8
from ..base.errors import UserError
from ..base.pipes import read_file
from ..base.records import dataclass
from ..base.whole_file import whole_file
from ..codegen.aot import compile_to_object
from ..codegen.host import cpu_name, host_supports
from ..graph_ir.schedule.nbits_instructions import DIGITS
from ..runtime.loader import LoadedCode
from ..runtime.native import runs_tiles
from ..targets.isa import Microkernel, Target
from ..targets.microkernels import microkernels
from .peak import best_seconds, measure_peak

VERSION = 4
"""Incremented when the measurement changes: roofs in older files are then measured again."""

COMPUTE = "compute"
LOADS = 8  # per iteration: enough independent xors that only the loads take time
_LOG = logging.getLogger("graphc.roofline")
SECONDS = 0.004  # of one sample
ROUNDS = 5
REPEATS, MAX_REPEATS = 3, 8
MAX_SECONDS = 2.0  # time limit: after it, at most REPEATS
PAUSE_SECONDS = 0.02  # pause between repeats, for disturbances to pass
PACKED = "f32xu4"
"""Rows of f32 that are multiplied by weights of 4 bits."""

STEADY = 0.1
"""Repeats further apart than this share of the highest are not trusted."""

RETRY_SECONDS = 60.0
"""Unsteady roofs are measured again only after this time: a busy machine stays busy for a while."""

MAX_BYTES = 256 << 20


@dataclass(frozen=True)
class Level:
    """One level of memory: its capacity (bytes, over all threads' caches; 0: unlimited) and its read bandwidth."""

    name: str
    capacity: int
    gbytes_per_second: float


@dataclass(frozen=True)
class Peak:
    """The instruction that multiplies a pair of types, and 1e9 operations a second, a multiply-add being two."""

    types: str
    instruction: str
    gops: float


@dataclass(frozen=True)
class Roofline:
    """The roofs for `threads` threads. `gflops`: f32 operations in 1e9 a second, a multiply-add being two.

    `peaks`: those of other types, in the type they are multiplied in.
    `measured`: when, in seconds since 1970. `spread`: for the least steady roof, the gap between its best two repeats,
    relative to the best; 0 if all agree.
    """

    cpu: str
    isa: str
    threads: int
    gflops: float
    levels: tuple[Level, ...]
    measured: float = 0.0
    spread: float = 0.0
    peaks: tuple[Peak, ...] = ()

    @property
    def steady(self) -> bool:
        """Return whether the measurement appears undisturbed."""
        return self.spread <= STEADY

    def roofs(self) -> tuple[float, ...]:
        """All figures, the compute peak first."""
        others = (peak.gops for peak in self.peaks)
        return (self.gflops, *(level.gbytes_per_second for level in self.levels), *others)

    def of_type(self, a: str) -> Roofline:
        """Return the roofs of matmuls whose left operand has the type `a`; `self` if the type has no measured peak.

        Of `PACKED` rows the peak is that of multiply-adds, or of dot products of bytes that take digits.
        """
        if a == PACKED:
            digits = self.of_type("u8").gflops / DIGITS
            return replace(self, gflops=max(self.gflops, digits))
        gops = next(
            (peak.gops for peak in self.peaks if peak.types.startswith(f"{a}x")), self.gflops
        )
        return replace(self, gflops=gops)

    def raised(self, other: Roofline) -> Roofline:
        """The higher of two measurements of each roof."""
        levels = tuple(
            max(a, b, key=lambda level: level.gbytes_per_second)
            for a, b in zip(self.levels, other.levels, strict=True)
        )
        others = {(peak.types, peak.instruction): peak for peak in other.peaks}
        peaks = tuple(
            max(a, others.get((a.types, a.instruction), a), key=lambda peak: peak.gops)
            for a in self.peaks
        )
        return replace(self, gflops=max(self.gflops, other.gflops), levels=levels, peaks=peaks)

    def level_of(self, nbytes: float) -> Level:
        """Return the nearest level of memory that holds `nbytes`."""
        return next((x for x in self.levels if 0 < nbytes <= x.capacity), self.levels[-1])

    def is_between(self, nbytes: float) -> bool:
        """Return whether `nbytes` is too large to stay in the last cache and too small to be certainly outside it.

        How much of it is cached depends on other users of the cache: `read_seconds` measures it.
        """
        last = max((level.capacity for level in self.levels), default=0)
        return last / 2 < nbytes < 4 * last

    def bound(self, gflop: float, nbytes: float) -> tuple[str, float]:
        """(the roof that binds: `compute` or a level's name, least seconds) of a kernel."""
        level = self.level_of(nbytes)
        memory, compute = nbytes / 1e9 / level.gbytes_per_second, gflop / self.gflops
        return (COMPUTE, compute) if compute >= memory else (level.name, memory)


def roofline(
    target: Target,
    threads: int,
    fresh: bool = False,
    path: Path | None = None,
    measure: Callable[[Target, int], Roofline] | None = None,
) -> Roofline:
    """The roofs of this machine from the file `path` (default: `default_file()`); measured if missing or if `fresh`.

    Unsteady roofs are measured again after a while, and the higher values count. If the file cannot be written, they
    are measured every time. Raise UserError if this CPU cannot run the target's code.
    """
    file = path or default_file()
    key = f"{cpu_name()}, {target.cpu}, {target.isa}, {threads} threads"
    known = _read(file)
    before = None if fresh else known.get(key)
    if before is not None and (before.steady or time.time() - before.measured < RETRY_SECONDS):
        return before
    found = (measure or measure_roofline)(target, threads)
    if before is not None:
        found = found.raised(before)
    known[key] = found
    _write(file, known)
    return found


def default_file(environ: Mapping[str, str] = os.environ) -> Path:
    """GRAPHC_ROOFLINE, else graphc/roofline.json in the user's cache folder."""
    if environ.get("GRAPHC_ROOFLINE"):
        return Path(environ["GRAPHC_ROOFLINE"])
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "graphc" / "roofline.json"


def measure_roofline(target: Target, threads: int) -> Roofline:
    """Measure all roofs, 1 to 2 s. Raise UserError if this CPU does not run the target's code."""
    if not host_supports(target.isa):
        raise UserError(
            f"target '{target.isa}': this CPU does not run it, so it has no roofs; use --target native"
        )
    code = LoadedCode(compile_to_object(_read_loop(target.lanes(F32)), target))
    # Half of each cache, to leave room for other data; for memory, more than any cache holds.
    sizes = {
        "L1": (target.l1_bytes * threads, target.l1_bytes // 2),
        "L2": (target.l2_bytes * threads, target.l2_bytes // 2),
        "L3": (target.l3_bytes, target.l3_bytes // 2 // threads),
        "DRAM": (0, min(4 * target.l3_bytes, MAX_BYTES) // threads),
    }

    def once() -> Roofline:
        levels = tuple(
            Level(name, capacity, _bandwidth(code, target, threads, nbytes))
            for name, (capacity, nbytes) in sizes.items()
        )
        peaks = tuple(
            Peak(f"{x.a}x{x.b}", x.instruction, measure_peak(target, threads, x))
            for x in typed_kernels(target)
        )
        gflops = measure_peak(target, threads)
        return Roofline(cpu_name(), target.isa, threads, gflops, levels, peaks=peaks)

    return highest(once)


def read_seconds(target: Target, threads: int, nbytes: int) -> float:
    """Return the seconds in which `threads` threads together re-read `nbytes` that they have just read (0.1 s)."""
    code = LoadedCode(compile_to_object(_read_loop(target.lanes(F32)), target))
    share = max(nbytes // threads, 1)
    return nbytes / 1e9 / _bandwidth(code, target, threads, share)


def typed_kernels(target: Target) -> tuple[Microkernel, ...]:
    """The microkernels whose peaks are shown beside f32: those that do not multiply as f32 what is not an f32."""
    pairs = ((F64, F64), (BF16, BF16), (U8, S8), (S8, S8))
    tiles = target.table.tiles is not None and runs_tiles()
    kernels = (microkernels(a, b, target, tiles)[0] for a, b in pairs)
    return tuple(x for x in kernels if x.copied_a != F32)


def highest(once: Callable[[], Roofline]) -> Roofline:
    """Measure until the best two values of each roof agree or time is up: the highest values, the time, and
    the spread."""
    found: list[Roofline] = []
    end = time.monotonic() + MAX_SECONDS
    best, spread = once(), 1.0
    found.append(best)
    while len(found) < REPEATS or (
        spread > STEADY and len(found) < MAX_REPEATS and time.monotonic() < end
    ):
        time.sleep(PAUSE_SECONDS)
        found.append(once())
        best = best.raised(found[-1])
        ranked = [sorted(values)[-2:] for values in zip(*(x.roofs() for x in found), strict=True)]
        spread = max(1 - second / first for second, first in ranked)
    return replace(best, measured=time.time(), spread=spread)


def _bandwidth(code: LoadedCode, target: Target, threads: int, nbytes: int) -> float:
    """GB/s at which `threads` threads repeatedly read `nbytes` each."""
    step = LOADS * target.lanes(F32) * 4
    nbytes = max(nbytes // step, 1) * step
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        code.address("read_all")
    )
    buffers = [
        aligned_empty((nbytes,), np.dtype(np.uint8), large_alignment(nbytes))
        for _ in range(threads)
    ]
    out = [ctypes.create_string_buffer(step) for _ in range(threads)]
    for buffer in buffers:
        buffer.fill(1)

    def calls(times: int) -> list[Callable[[], object]]:
        return [
            partial(run, b.ctypes.data, nbytes, times, o) for b, o in zip(buffers, out, strict=True)
        ]

    times = 1
    while times < 1 << 20 and best_seconds(calls(times), 2) < SECONDS:
        times *= 4
    return threads * times * nbytes / best_seconds(calls(times), ROUNDS) / 1e9


def _read_loop(lanes: int) -> str:
    """`void read_all(ptr data, i64 bytes, i64 times, ptr out)`: xor of all vectors; bytes in whole trips."""
    vector, size = f"<{lanes} x i32>", 4 * lanes
    ids = range(LOADS)
    body = []
    for i in ids:
        body += [
            f"  %p{i} = getelementptr i8, ptr %at, i64 {size * i}",
            f"  %v{i} = load {vector}, ptr %p{i}, align 4",
            f"  %d{i} = xor {vector} %c{i}, %v{i}",
        ]
    outer = [f"  %s{i} = phi {vector} [zeroinitializer, %entry], [%d{i}, %again]" for i in ids]
    inner = [f"  %c{i} = phi {vector} [%s{i}, %pass], [%d{i}, %loop]" for i in ids]
    stores = [
        f"  %o{i} = getelementptr i8, ptr %out, i64 {size * i}\n  store {vector} %d{i}, ptr %o{i}, align 1"
        for i in ids
    ]
    return "\n".join(
        [
            "define void @read_all(ptr %data, i64 %bytes, i64 %times, ptr %out) {",
            "entry:",
            "  br label %pass",
            "pass:",
            "  %t = phi i64 [0, %entry], [%t.next, %again]",
            *outer,
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %pass], [%next, %loop]",
            *inner,
            "  %at = getelementptr i8, ptr %data, i64 %i",
            *body,
            f"  %next = add i64 %i, {size * LOADS}",
            "  %more = icmp slt i64 %next, %bytes",
            "  br i1 %more, label %loop, label %again",
            "again:",
            "  %t.next = add i64 %t, 1",
            "  %rest = icmp slt i64 %t.next, %times",
            "  br i1 %rest, label %pass, label %done",
            "done:",
            *stores,
            "  ret void",
            "}",
            "",
        ]
    )


def _read(path: Path) -> dict[str, Roofline]:
    """The contents of a file; empty if it is missing, corrupt or of another version: it is only a cache."""
    try:
        content = json.loads(read_file(path))
        if content["version"] != VERSION:
            return {}
        return {key: _from_json(value) for key, value in content["rooflines"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _from_json(value: Mapping[str, object]) -> Roofline:
    fields = dict(value)
    levels = tuple(Level(**level) for level in fields.pop("levels"))  # type: ignore[attr-defined]
    peaks = tuple(Peak(**peak) for peak in fields.pop("peaks"))  # type: ignore[attr-defined]
    return Roofline(**fields, levels=levels, peaks=peaks)  # type: ignore[arg-type]


def _write(path: Path, rooflines: Mapping[str, Roofline]) -> None:
    content = {"version": VERSION, "rooflines": {k: asdict(r) for k, r in rooflines.items()}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as stream:
            stream.write((json.dumps(content, indent=1) + "\n").encode())
    except OSError as error:  # the home directory is read-only: nothing is stored
        _LOG.info("'%s' cannot be written (%s)", path, error.strerror)
