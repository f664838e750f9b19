"""Roofs that need not be measured: tests of commands that only print them would take a second each."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from graphc.bench import roofline
from graphc.bench.roofline import Level, Peak, Roofline
from graphc.targets.isa import Target

LEVELS = (
    Level("L1", 1 << 15, 200.0),
    Level("L2", 1 << 20, 100.0),
    Level("L3", 1 << 25, 50.0),
    Level("DRAM", 0, 10.0),
)


def plant_roofs(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From now on nothing is measured, and what is kept is kept in a file of the folder."""

    def measure(target: Target, threads: int) -> Roofline:
        peaks = (Peak("u8xs8", "dot4", 400.0 * threads),)
        return Roofline(
            "a CPU", target.isa, threads, 100.0 * threads, LEVELS, time.time(), peaks=peaks
        )

    monkeypatch.setattr(roofline, "measure_roofline", measure)
    monkeypatch.setenv("GRAPHC_ROOFLINE", str(folder / "roofs.json"))
