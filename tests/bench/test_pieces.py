"""Suites timed in pieces: the entries in the file, the remaining cases, and invalid files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from graphc import cli
from graphc.base.errors import UserError
from graphc.bench import measure, suites
from graphc.bench.cases import Case
from graphc.bench.engines import Roof, Row
from graphc.bench.measure import Timing
from graphc.bench.pieces import Pieces
from graphc.bench.quantized import dense

ROW = Row(
    "b1", 1.0, 9.0, {"graphc": Timing(2.0, 1.0, 3)}, 0.5, frozenset({"ort"}), {"x": "no"},
    Roof("L2", 1.0), True,
)  # fmt: skip


def test_rows_come_back_from_the_file_and_their_cases_are_done(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    Pieces(path, 1, 2).keep("first", [ROW])
    again = Pieces(path, 1, 2)
    assert again.rows == [ROW] and not again.begins("first") and again.begins("second")
    with pytest.raises(UserError, match="are of 2 threads, and this run has 1"):
        Pieces(path, 1, 1)
    path.write_text("[]")
    with pytest.raises(UserError, match="has no rows of a suite to go on from"):
        Pieces(path, 1, 1)
    with pytest.raises(UserError, match="cannot write"):
        Pieces(tmp_path / "none" / "rows.json", 1, 1).keep("first", [ROW])


def test_the_command_goes_on_where_an_earlier_one_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "pin_to", lambda threads: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    made: list[str] = []

    def maker(name: str) -> Callable[[], Case]:
        def make() -> Case:
            made.append(name)
            return dense(1, (8, 8)).case()

        return make

    monkeypatch.setitem(suites.SUITES, "tiny", lambda: {n: maker(n) for n in ("a", "b")})
    path = tmp_path / "rows.json"
    words = [
        "bench",
        "--suite",
        "tiny",
        "--rounds",
        "1",
        "--seconds",
        "0.001",
        "--threads",
        "1",
        "-q",
    ]
    words += ["--json", "--resume", str(path)]
    assert cli.main([*words, "--only", "a"]) == 0
    assert cli.main([*words, "--minutes", "0"]) == 0
    assert "not timed within --minutes: b\n" in capsys.readouterr().err
    assert cli.main(words) == 0
    assert made == ["a", "b"] and json.loads(path.read_text())["done"] == ["a", "b"]
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2
