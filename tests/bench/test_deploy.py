"""The figures of native libraries hold what is promised of them, except for those that depend on the machine."""

from __future__ import annotations

import platform

import pytest

from graphc.bench import deploy
from graphc.bench.suites import mlp

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="libraries are ELF")


def test_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_LOADS", 1), ("_ROUNDS", 1), ("_SECONDS", 0.02)):
        monkeypatch.setattr(deploy, name, value)
    found = deploy.measured(mlp("MLP", 8, (13, 32, 16)))
    assert set(found) == {"code", "load", "session of ONNX Runtime", "speed beside Python"}
    assert float(found["code"].split()[0]) < 100
    overhead = deploy.call_overhead()
    assert overhead == "no C compiler" or float(overhead.split()[0]) < 1000
