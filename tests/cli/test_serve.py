"""`graphc serve` without the package that it starts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from graphc.cli import main
from support.native import add_artifact


def test_a_missing_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_artifact().save(tmp_path / "m.gcm")
    monkeypatch.delitem(sys.modules, "graphc.integrations.mlserver_runtime", raising=False)
    monkeypatch.setitem(sys.modules, "mlserver", None)
    assert main(["serve", str(tmp_path / "m.gcm")]) == 2
    err = capsys.readouterr().err
    assert "serving needs the package mlserver" in err and "install graphc[serve]" in err
