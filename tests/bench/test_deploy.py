"""The figures of deployed models hold what is promised of them, except for those that depend on the machine."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from graphc.bench import deploy, sharing
from graphc.bench.records import read_record
from graphc.bench.sharing import Shares, shares
from graphc.bench.suites import mlp

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="libraries are ELF")


def test_a_record_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    for name, value in (("_LOADS", 1), ("_ROUNDS", 1), ("_SECONDS", 0.02), ("WEIGHTS_MB", 1)):
        monkeypatch.setattr(deploy, name, value)
    monkeypatch.setattr(deploy, "cases", lambda: [mlp("MLP", 8, (13, 32, 16))])
    monkeypatch.setattr(deploy, "shares", lambda *_: Shares(None, 1.0, 0.0, 2.0))
    monkeypatch.setattr(deploy, "peak_megabytes", lambda *_, **__: 300)
    deploy.main([str(tmp_path)])
    record = read_record(tmp_path / "deploy.json")
    figures: Any = dict(zip(record.column("figure"), record.column("graphc"), strict=True))
    assert figures["code of MLP without weights, KB"] < 100
    overhead = figures["call from C of an empty model, us"]
    assert overhead is None or overhead < 1
    assert figures["private memory of a second process, above a tiny model's, MB"] == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", sharing.ENGINES)
def test_shares(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(engine)
    for name, value in (("ROUNDS", 1), ("SECONDS", 0.05), ("IDLE_SECONDS", 0.5)):
        monkeypatch.setattr(sharing, name, value)
    found = shares(engine, mlp("MLP", 8, (13, 32, 16)))
    assert found.oversubscribed > 0
    assert found.limited is None or found.limited > 0
    assert found.idle < 0.2
