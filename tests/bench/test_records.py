"""Records of measurements, from made-up timings; and those that are committed."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from graphc.bench import records
from graphc.bench.op_cases import op_families, op_lines
from graphc.bench.quantized import quantized_cases
from graphc.bench.records import Record, read_record, summarize
from graphc.bench.tables import to_json
from graphc.cli import bench
from support.process import ROOT

COMMITTED = sorted((ROOT / "docs" / "records").glob("*.json"))
FACTS = {
    "cpu": "a CPU",
    "date": "2026-01-02",
    "versions": {"graphc": "1", "numpy": "2", "openvino": "3"},
}


def result(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {**FACTS, "rows": rows, "geomean": 2.0}


def operators(ratio: float, **others: float) -> dict[str, Any]:
    rows = []
    for name in op_lines():
        peer = others.get(name.replace(" ", "_"), ratio)
        seconds = {"graphc": 1.0, "ort": peer, "openvino": 0.5 * peer}
        engines = {engine: {"min": time, "median": 9.0} for engine, time in seconds.items()}
        rows.append({"case": name, "wrong": ["openvino"], "engines": engines})
    return result(rows)


def test_families_have_their_mean_and_their_worst_case() -> None:
    timings = [operators(2.0, transpose_u8_10=0.5), operators(3.0), operators(4.0, lstm_100x1x128=1.0)]  # fmt: skip
    record = summarize("ops", timings)
    families = op_families()
    assert record.column("operators") == list(families)
    assert record.column("cases") == [len(calls) for calls in families.values()]
    assert sum(map(len, families.values())) == len(op_lines())
    transposes = record.markdown().splitlines()[4]
    assert transposes.startswith(f"| Transposes | {len(families['Transposes'])} | 1.90 | 0.50 (")
    assert record.mean[:2] == ["all", len(op_lines())]
    assert record.mean[-1] == "1.00 (lstm 100x1x128)"


def test_a_case_that_no_peer_runs_is_left_out() -> None:
    refused = operators(2.0)
    refused["rows"][0]["engines"] = {"graphc": {"min": 1.0, "median": 1.0}}
    text = summarize("ops", [refused, refused, refused]).markdown()
    assert "| 2.00 | 2.00 (transpose 10 197x768) |" in text


def low_precision_row(case: str) -> dict[str, Any]:
    """A case that is twice as fast as the right peer; the wrong one would be faster. bf16 has no peer."""
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


def test_one_command_times_a_suite_and_records_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = []

    def timed(command: list[str]) -> SimpleNamespace:
        calls.append(command)
        rows = [low_precision_row(case) for case in quantized_cases()]
        Path(command[command.index("--output") + 1]).write_text(json.dumps(result(rows)))
        Path(command[command.index("--resume") + 1]).touch()
        return SimpleNamespace(returncode=0 if len(calls) != 2 else 1)

    monkeypatch.setattr(records.subprocess, "run", timed)
    monkeypatch.setattr(records, "narrower_levels", lambda: ["avx2"])
    records.main([str(tmp_path / "new"), "--measure", "quantized"])
    assert [call[:3] for call in calls] == [[sys.executable, "-m", "graphc"]] * 3
    assert [call[call.index("--threads") + 1] for call in calls] == ["1", "2", "1"]
    assert calls[2][calls[2].index("--target") + 1] == "avx2"
    record = read_record(tmp_path / "new" / "quantized.json")
    assert (record.cpu, record.date) == ("a CPU", "2026-01-02")
    assert record.versions == {"graphc": "1", "openvino": "3"}
    assert record.command == "graphc bench --suite quantized --against ort,openvino"
    printed = capsys.readouterr().out
    assert record.markdown() in printed
    assert "| 1x4096x4096 4-bit | 1 | 2 | 2.00 | 3.00 | 90 | 2.00 | 1 | openvino |" in printed
    assert "| BERT-base s128 bf16 | 1 |  |  | 3.00 |  |  | 1 |  |" in printed
    assert len(record.rows) == len(quantized_cases())


def test_an_interrupted_suite_continues_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def timed(command: list[str]) -> SimpleNamespace:
        threads.append(command[command.index("--threads") + 1])
        if len(threads) != 2:  # the second command is interrupted
            row = {"case": "a", "gflop": 1.0, "peak_gflops": 1e3, "ratio": 2.0}
            row |= {"agree": True, "wrong": [], "gain": None}
            engines = {"graphc": {"median": 2e-3}, "openvino": {"median": 4e-3}}
            Path(command[command.index("--output") + 1]).write_text(
                json.dumps(result([{**row, "engines": engines}]))
            )
            Path(command[command.index("--resume") + 1]).touch()
        return SimpleNamespace(returncode=3)

    monkeypatch.setattr(records.subprocess, "run", timed)
    with pytest.raises(SystemExit) as error:
        records.main([str(tmp_path), "--measure", "gemm"])
    assert error.value.code == 3 and not (tmp_path / "gemm.json").exists()
    records.main([str(tmp_path), "--measure", "gemm"])
    assert threads == ["1", "2", "2"]
    assert [path.name for path in tmp_path.iterdir()] == ["gemm.json"]
    record = read_record(tmp_path / "gemm.json")
    assert [column.name for column in record.columns][:3] == ["case", "graphc, ms", "OpenVINO, ms"]
    assert record.rows == [["a", 2.0, 4.0, 2.0, 50.0, 2.0]]


def test_modules_of_pytorch() -> None:
    times = {"eager": 8, "graphc": 2, "frozen": 1, "module": 1, "openvino": 4, "ort": 3}
    engines = {name: {"median": time / 1e3} for name, time in times.items()}
    row = {"case": "net", "engines": engines, "wrong": ["ort"], "ratio": 2.0, "gain": None}
    record = summarize("torch", [result([row]), result([row])])
    assert record.rows == [["net", 8.0, 3.0, 4.0, 2.0, 2.0, 4.0, 4.0, 2.0]]
    assert record.mean == ["geometric mean", None, None, None, None, 2.0, 4.0, 4.0, 2.0]


def test_commands_are_those_of_the_command_line() -> None:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    for suite in records.TITLES:
        for name, (command, *arguments) in records.commands(suite).items():
            args = parser.parse_args(arguments)
            assert (command, args.suite) == ("bench", suite)
            if suite != "quantized" or args.target == "native":
                assert set(args.against.split(",")) == {"ort", "openvino"}
            assert name == f"{suite}-{args.threads if args.target == 'native' else args.target}"


def test_the_output_of_bench_has_what_a_record_needs() -> None:
    facts = to_json([], 1)
    assert {"cpu", "date", "versions", "rows", "geomean"} <= facts.keys()
    assert facts["versions"]["graphc"]


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_a_committed_record_is_complete(path: Path) -> None:
    record = read_record(path)
    assert record.to_text() == path.read_text(encoding="utf-8")
    assert record.suite == path.stem and record.cpu and record.versions["graphc"]
    assert record.command.startswith(("graphc bench ", "python -m graphc.bench."))
    assert all(len(row) == len(record.columns) for row in record.rows)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.stem)
def test_the_mean_of_a_record_is_that_of_its_rows(path: Path) -> None:
    record = read_record(path)
    for index, mean in enumerate(record.mean):
        if isinstance(mean, float) and record.mean[0] == "geometric mean":
            numbers = [math.log(row[index]) for row in record.rows if row[index]]
            assert math.exp(sum(numbers) / len(numbers)) == pytest.approx(mean, abs=0.011)


def test_a_record_without_a_mean_is_read_back(tmp_path: Path) -> None:
    old = read_record(COMMITTED[0])
    record = Record(**{**old.__dict__, "mean": []})
    (tmp_path / "r.json").write_text(record.to_text())
    assert read_record(tmp_path / "r.json") == record


def test_a_suite_that_cannot_be_timed_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda _: SimpleNamespace(returncode=3))
    with pytest.raises(SystemExit) as error:
        records.main([str(tmp_path), "--measure", "gemm"])
    assert error.value.code == 3
