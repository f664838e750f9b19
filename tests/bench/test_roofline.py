"""Roofs: which one binds, and the file they are kept in."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.bench.peak import measure_peak
from graphc.bench.roofline import (
    PACKED,
    RETRY_SECONDS,
    VERSION,
    Level,
    Peak,
    Roofline,
    default_file,
    highest,
    measure_roofline,
    roofline,
    typed_kernels,
)
from graphc.cli import main
from graphc.codegen.host import target_for
from graphc.targets.isa import Target
from support.roofs import plant_roofs

LEVELS = (Level("L1", 1000, 100.0), Level("L2", 8000, 50.0), Level("DRAM", 0, 10.0))
ROOFS = Roofline("a CPU", "avx2", 2, 200.0, LEVELS)


@pytest.mark.parametrize(
    ("nbytes", "level"), [(0, "DRAM"), (1, "L1"), (1000, "L1"), (1001, "L2"), (8001, "DRAM")]
)
def test_operands_are_read_from_the_nearest_level_that_holds_them(nbytes: int, level: str) -> None:
    assert ROOFS.level_of(nbytes).name == level


def test_the_slower_of_work_and_traffic_binds() -> None:
    assert ROOFS.bound(1.0, 1000) == ("compute", 1.0 / 200)
    assert ROOFS.bound(0.0, 1000) == ("L1", 1e-6 / 100)
    assert ROOFS.bound(1e-9, 1e9) == ("DRAM", 0.1)
    assert ROOFS.bound(0.0, 0) == ("compute", 0.0)


@pytest.mark.parametrize(
    ("nbytes", "is_so"), [(4000, False), (4001, True), (8001, True), (31999, True), (32000, False)]
)
def test_sizes_near_that_of_the_last_cache_are_measured(nbytes: int, is_so: bool) -> None:
    assert ROOFS.is_between(nbytes) == is_so


def test_measured_once_per_target_and_thread_count(tmp_path: Path) -> None:
    file, requested = tmp_path / "new" / "roofs.json", []

    def measure(target: Target, threads: int) -> Roofline:
        requested.append((target.isa, threads))
        return Roofline("a CPU", target.isa, threads, float(len(requested)), LEVELS)

    def gflops(isa: str, threads: int, fresh: bool = False) -> float:
        return roofline(Target(isa), threads, fresh, file, measure).gflops

    assert [gflops("avx2", 1), gflops("avx2", 1), gflops("avx2", 2), gflops("generic", 1)] == [
        1.0, 1.0, 2.0, 3.0,
    ]  # fmt: skip
    assert gflops("avx2", 1, fresh=True) == 4.0 and gflops("avx2", 1) == 4.0
    assert requested == [("avx2", 1), ("avx2", 2), ("generic", 1), ("avx2", 1)]
    kept = roofline(Target("avx2"), 2, path=file, measure=measure)
    assert kept == Roofline("a CPU", "avx2", 2, 2.0, LEVELS)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"version": 0}', '{"version": 1}'])
def test_a_corrupt_or_old_file_is_measured_again(tmp_path: Path, content: str) -> None:
    file = tmp_path / "roofs.json"
    file.write_text(content)
    assert roofline(Target("avx2"), 1, path=file, measure=lambda t, n: ROOFS) == ROOFS
    assert json.loads(file.read_text())["version"] == VERSION


def times(*factors: float) -> Iterator[Roofline]:
    """Return measurements in which all roofs are multiples of `ROOFS`."""
    for factor in factors:
        levels = tuple(replace(x, gbytes_per_second=x.gbytes_per_second * factor) for x in LEVELS)
        yield replace(ROOFS, gflops=ROOFS.gflops * factor, levels=levels)


@pytest.mark.parametrize(
    ("factors", "used", "best", "steady"),
    [
        ((1.0, 1.0, 1.0), 3, 1.0, True),
        ((0.5, 1.0, 0.98), 3, 1.0, True),
        ((0.5, 0.6, 1.0, 0.7, 0.99), 5, 1.0, True),
        ((0.1, 0.2, 0.4, 0.8, 0.1, 0.1, 0.1, 0.1), 8, 0.8, False),
    ],
)
def test_repeats_until_the_best_two_agree(
    factors: tuple[float, ...], used: int, best: float, steady: bool
) -> None:
    left = list(times(*factors))
    found = highest(lambda: left.pop(0))
    assert len(factors) - len(left) == used
    assert found.gflops == pytest.approx(200 * best)
    assert [x.gbytes_per_second for x in found.levels] == pytest.approx(
        [100 * best, 50 * best, 10 * best]
    )
    assert found.steady == steady and found.measured > 0


def test_what_was_not_steady_is_measured_again_and_the_higher_counts(tmp_path: Path) -> None:
    now = time.time()
    first = replace(ROOFS, spread=0.3, measured=now - 2 * RETRY_SECONDS)
    (lower,) = times(0.9)
    mixed = replace(lower, gflops=250.0, spread=0.2, measured=now)
    left = [first, mixed]

    def requested(fresh: bool = False) -> Roofline:
        return roofline(Target("avx2"), 2, fresh, tmp_path / "r.json", lambda t, n: left.pop(0))

    assert requested() == first
    assert requested() == replace(mixed, levels=LEVELS)
    assert requested() == replace(mixed, levels=LEVELS) and not left, "not so soon again"
    left.append(lower)
    assert requested(fresh=True) == lower, "requested anew, nothing old counts"


def test_a_file_that_cannot_be_written_is_no_bug(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    path = tmp_path / "x" / "y"
    assert roofline(Target("avx2"), 1, path=path, measure=lambda t, n: ROOFS) == ROOFS


def test_the_file_is_the_users_or_the_caches() -> None:
    assert default_file({"GRAPHC_ROOFLINE": "r.json"}) == Path("r.json")
    assert default_file({"XDG_CACHE_HOME": "c"}) == Path("c/graphc/roofline.json")


def test_real_roofs_are_positive_numbers() -> None:
    found = measure_roofline(target_for("generic"), 2)
    assert found.gflops > 0.1 and found.threads == 2
    assert [level.name for level in found.levels] == ["L1", "L2", "L3", "DRAM"]
    assert all(level.gbytes_per_second > 0.1 for level in found.levels)
    assert found.levels[-1].capacity == 0
    assert {x.types: x.instruction for x in found.peaks} == {
        "f64xf64": "fma", "u8xs8": "dot2", "s8xs8": "dot2",
    }  # fmt: skip
    assert all(peak.gops > 0.1 for peak in found.peaks)


def test_peaks_are_those_of_the_microkernels() -> None:
    """Types that are converted have the peak of f32; how fast instructions are differs between cores."""
    target = target_for("native")
    shown = {f"{x.a}x{x.b}": x for x in typed_kernels(target)}
    assert {"f64xf64", "u8xs8", "s8xs8"} <= set(shown) <= {"f64xf64", "bf16xbf16", "u8xs8", "s8xs8"}
    assert all(measure_peak(target, 1, kernel) > 0 for kernel in shown.values())


def test_the_higher_of_two_peaks_counts(tmp_path: Path) -> None:
    low, high = Peak("u8xs8", "dot4", 500.0), Peak("u8xs8", "dot4", 900.0)
    first = replace(ROOFS, peaks=(low,))
    assert first.raised(replace(ROOFS, peaks=(high,))).peaks == (high,)
    path = tmp_path / "r.json"
    roofline(Target("avx2"), 2, path=path, measure=lambda t, n: replace(first, measured=1.0))
    assert roofline(Target("avx2"), 2, path=path, measure=lambda t, n: ROOFS).peaks == (low,)


def test_a_target_this_cpu_does_not_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphc.bench.roofline.host_supports", lambda isa: isa != "avx512")
    with pytest.raises(UserError, match="target 'avx512': this CPU does not run it"):
        measure_roofline(Target("avx512"), 1)


def test_the_command_prints_all_roofs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_roofs(monkeypatch, tmp_path)
    assert main(["dev", "roofline", "--threads", "1"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[1:6]] == ["compute", "u8xs8", "L1", "L2", "L3"]
    target = target_for("native")
    rate = target.machine.rates[target.isa].u8s8_dot4
    assert out[2].endswith(f"dot4, 4.00 x f32, {rate:g} assumed in matmuls")
    assert re.search(r"bytes/cycle, [0-9.]+ assumed$", out[3])
    assert main(["dev", "roofline", "--threads", "1", "--json"]) == 0
    assert re.match(r"measured \d+ seconds ago, best two of several within 0.0 %$", out[7])
    facts = json.loads(capsys.readouterr().out)
    assert f"{facts['gflops']:.1f}" == out[1].split()[1]


def test_rows_in_fixed_point_have_a_third_of_the_peak_of_bytes_or_that_of_f32() -> None:
    slow = Roofline("cpu", "avx512", 1, 200.0, (), peaks=(Peak("u8xs8", "vpmaddwd", 450.0),))
    fast = replace(slow, peaks=(Peak("u8xs8", "vpdpbusd", 900.0),))
    assert [x.of_type(PACKED).gflops for x in (slow, fast)] == [200.0, 300.0]
