"""`graphc dev fuzz`: counts, reproducers, replays, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc import cli
from graphc.tools.fuzz.case import random_case
from graphc.tools.fuzz.outcome import RIGHT, WRONG, Outcome
from graphc.tools.fuzz.reproducer import write_reproducer
from graphc.tools.fuzz.workers import Worker


def test_right_graphs_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["dev", "fuzz", "--seed", "16", "--count", "6", "--jobs", "1", "-q"]
    assert cli.main([*words, "--reproducer", str(tmp_path)]) == 0
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("seed 16: 6 graphs, ")
    assert line.endswith(": 6 right, 0 refused, 0 wrong, 0 internal, 0 dead, 0 slow")
    assert not list(tmp_path.iterdir())


def test_a_failure_is_shrunk_and_written_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Worker, "check", lambda self, job: Outcome(WRONG, "run", "result 0 is off"))
    words = ["dev", "fuzz", "--count", "3", "--jobs", "1", "--shrink", "5", "--json"]
    assert cli.main([*words, "--reproducer", str(tmp_path)]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["counts"] == {"wrong": 3} and len(facts["failures"]) == 3
    (folder,) = tmp_path.iterdir()
    assert list(facts["reproducers"].values()) == [f"graphc dev fuzz --replay {folder}"]
    assert {"case.json", "model.graph", "outcome.txt"} <= {file.name for file in folder.iterdir()}


def test_a_case_is_replayed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_reproducer(tmp_path / "case", random_case(16, 0), Outcome(RIGHT))
    assert cli.main(["dev", "fuzz", "--replay", str(tmp_path / "case")]) == 0
    assert capsys.readouterr().out == "right\n"


def test_wrong_use_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["dev", "fuzz", "--count", "0"]) == 2
    assert "--count must be at least 1, got 0" in capsys.readouterr().err
    assert cli.main(["dev", "fuzz", "--replay", str(tmp_path)]) == 2
    assert "holds no case of graphc dev fuzz" in capsys.readouterr().err
