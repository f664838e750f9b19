"""The README's tables of single operators and of low precision, from made-up timings."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphc.bench import readme_tables
from graphc.bench.op_cases import op_families, op_lines
from graphc.bench.quantized import quantized_cases
from graphc.bench.readme_tables import QUANTIZED_TEXT, ops_table
from graphc.cli import bench

PACKAGE = Path(readme_tables.__file__).parents[1]


def result(ratio: float, **others: float) -> dict[str, Any]:
    rows = []
    for name in op_lines():
        peer = others.get(name.replace(" ", "_"), ratio)
        seconds = {"graphc": 1.0, "ort": peer, "openvino": 0.5 * peer}
        engines = {engine: {"min": time, "median": 9.0} for engine, time in seconds.items()}
        rows.append({"case": name, "wrong": ["openvino"], "engines": engines})
    return {"rows": rows}


def test_families_have_their_mean_and_their_worst_case() -> None:
    lines = ops_table(
        [result(2.0, transpose_u8_10=0.5), result(3.0), result(4.0, lstm_100x1x128=1.0)]
    ).splitlines()
    families = op_families()
    assert len(lines) == 2 + len(families) + 1
    assert sum(map(len, families.values())) == len(op_lines())
    assert "| 1.90 | 0.50 (transpose u8 10) | 3.00 | 3.00 (" in lines[2]
    assert lines[2].startswith(f"| Transposes | {len(families['Transposes'])} |")
    assert lines[-1].endswith("| 1.00 (lstm 100x1x128) |")
    assert f"| all | {len(op_lines())} | **1.99** | 0.50 (transpose u8 10) |" in lines[-1]


def test_a_case_that_no_peer_runs_is_left_out() -> None:
    refused = result(2.0)
    refused["rows"][0]["engines"] = {"graphc": {"min": 1.0, "median": 1.0}}
    assert "| 2.00 | 2.00 (transpose 10 197x768) |" in ops_table([refused, refused, refused])


def low_precision_row(case: str) -> dict[str, Any]:
    """A case that is twice as fast as the right peer; the wrong one would be faster. Bytes of bf16 have no peer."""
    engines = {name: {"median": time} for name, time in {"graphc": 1e-3, "f32": 3e-3}.items()}
    wrong = []
    if "bf16" not in case:
        engines |= {"ort": {"median": 2e-3}, "openvino": {"median": 5e-4}}
        wrong = ["openvino"]
    ratio = 2.0 if len(engines) > 2 else None
    roof = {"seconds": 9e-4} if case.startswith("1x") else None
    return {
        "case": case, "engines": engines, "wrong": wrong, "ratio": ratio, "gain": 3.0, "roof": roof
    }  # fmt: skip


def test_one_command_times_a_suite_and_prints_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def timed(command: list[str]) -> SimpleNamespace:
        calls.append(command)
        rows = [low_precision_row(case) for case in quantized_cases()]
        file = Path(command[command.index("--output") + 1])
        file.write_text(json.dumps({"rows": rows, "geomean": 2.0}))
        Path(command[command.index("--resume") + 1]).touch()
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(readme_tables.subprocess, "run", timed)
    for _ in range(2):  # the second time, all is there
        readme_tables.main([str(tmp_path / "new"), "--measure", "quantized"])
    assert [call[:3] for call in calls] == [[sys.executable, "-m", "graphc"]] * 2
    assert [call[call.index("--threads") + 1] for call in calls] == ["1", "2"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "quantized-1.json", "quantized-2.json"
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert printed.startswith(QUANTIZED_TEXT) and printed.count(QUANTIZED_TEXT) == 2
    assert "| 1x4096x4096 4-bit | 1 | 2 | 2.00 | 3.00 | 90 | 2.00 | openvino |" in printed
    assert "| BERT-base s128 bf16 | 1 |  |  | 3.00 |  |  |  |" in printed
    rows = [line for line in printed.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 * (len(quantized_cases()) + 2)


def test_a_suite_that_cannot_be_timed_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda _: SimpleNamespace(returncode=3))
    with pytest.raises(SystemExit) as error:
        readme_tables.main([str(tmp_path), "--measure", "gemm"])
    assert error.value.code == 3
    readme_tables.main([str(tmp_path)])  # nothing to print


def test_commands_are_those_of_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    for suite in ("ops", *readme_tables.SUITES):
        for name, (command, *arguments) in readme_tables.commands(suite).items():
            args = parser.parse_args(arguments)
            assert (command, args.suite, args.against) == ("bench", suite, "ort,openvino")
            assert name == f"{suite}-{'avx2' if args.target == 'avx2' else args.threads}"


def test_readme_says_what_the_table_of_low_precision_holds() -> None:
    assert QUANTIZED_TEXT in (PACKAGE / "README.md").read_text()
