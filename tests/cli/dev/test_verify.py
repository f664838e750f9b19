"""`graphc dev verify`: a row per (op, layout, schedule), and exit code 1 when one is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc import cli
from graphc.targets.isa import Target
from graphc.targets.microkernels import f32_tiles
from graphc.tools import variants
from support.cli_models import free, layer, plant_wrong_relu, tiny

GENERIC = Target("generic")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two schedules a layout and no boundary sizes: the rest is tested by its templates' tests, and slow."""
    monkeypatch.setattr(variants, "_boundary_matmuls", lambda ctx: iter(()))
    monkeypatch.setattr(variants, "MAX_SCHEDULES", 2)


def test_every_op_in_every_layout_and_schedule(few: None, tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["dev", "verify", layer(tmp_path), "--target", "generic", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert found["mismatches"] == 0
    rows = [
        (row["op"].split()[0], row["layout"], row["schedule"].split()[0]) for row in found["rows"]
    ]
    widths = {tile.columns(GENERIC) for tile in f32_tiles(GENERIC)}
    assert {(name, layout) for name, layout, _ in rows} == {
        *(("matmul_core", f"MK,NK{columns}n->MN") for columns in widths),
        *(
            ("matmul_core", "MK,KN->MN"),
            ("matmul_core", "MK16m16k,KN16n16k->MN16m16n"),
            ("add", "AB,A->AB"),
            ("relu", "AB->AB"),
        ),
    }
    assert {word for name, _, word in rows if name == "matmul_core"} == {"split"}
    assert len(rows) == len({tuple(row.values()) for row in found["rows"]}), "no row twice"
    assert all(row["ok"] and row["max_error"] == 0 for row in found["rows"])
    matmuls = [row for row in found["rows"] if row["op"].startswith("matmul_core")]
    assert all((row["seconds"] is not None) == (row in matmuls) for row in found["rows"])
    assert all(row["predicted_cycles"] > 0 and row["seconds"] > 0 for row in matmuls)
    assert sum(row["chosen"] for row in found["rows"]) == 1
    (grade,) = found["grades"]
    assert grade["problem"] == "matmul m4n5k8 f32" and grade["variants"] == len(matmuls)
    (layout,) = (row["layout"] for row in matmuls if row["chosen"])
    assert grade["best_seconds"] == min(x["seconds"] for x in matmuls if x["layout"] == layout)
    assert grade["time_lost"] >= 0 and grade["time_lost"] == found["time_lost"]


def test_an_op_that_reads_one_tensor_twice(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["dev", "verify", free(tmp_path), "-q", "--input", "x=f32[2,3]"]) == 0
    assert capsys.readouterr().out.startswith("1 variants, 0 mismatches, ")


def test_table_and_count(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["dev", "verify", tiny(tmp_path), "--target", "generic"]) == 0
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[0] == ["op", "layout", "schedule", "predicted", "us", "max", "error"]
    assert [line[0] for line in lines if line[-1] == "ok"] == ["neg", "relu"]
    assert out.splitlines()[-1] == "2 variants, 0 mismatches, generic"
    assert err.startswith("verify ")


def test_grades_follow_the_count(few: None, tmp_path: Path, capsys: Capture) -> None:
    assert (
        cli.main(["dev", "verify", layer(tmp_path), "--target", "generic", "-q", "--threads", "1"])
        == 0
    )
    count, _, rows = capsys.readouterr().out.partition("\n")
    assert count.endswith(" 0 mismatches, generic")
    grade, model, _ = " ".join(rows.split()).partition("cost model on 1 threads: ")
    assert grade.startswith("matmul m4n5k8 f32 ") and " over MK," in grade and model


def test_quiet_prints_the_count_only(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["dev", "verify", tiny(tmp_path), "-q", "--target", "generic"]) == 0
    assert capsys.readouterr() == ("2 variants, 0 mismatches, generic\n", "")


def test_a_wrong_kernel_is_exit_code_1(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_wrong_relu(monkeypatch)
    assert cli.main(["dev", "verify", tiny(tmp_path), "-q"]) == 1
    out = capsys.readouterr().out
    assert "MISMATCH" in out and "relu" in out and "neg" not in out
    assert "2 variants, 1 mismatches, " in out
    assert cli.main(["dev", "verify", tiny(tmp_path), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["op"].split()[0], row["ok"]) for row in rows] == [("neg", True), ("relu", False)]


def test_bad_input(tmp_path: Path, capsys: Capture) -> None:
    for words, sentence in (
        (["nope.onnx"], "there is no file 'nope.onnx'"),
        ([tiny(tmp_path), "-i", "z=random"], "--input names 'z', which is not an input of the model; its inputs are x"),
        ([tiny(tmp_path), "-X", "magic"], "-X must be no-SWITCH, got 'magic'; `graphc compile -X help` lists"),
    ):  # fmt: skip
        assert cli.main(["dev", "verify", *words]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith(f"graphc: error: {sentence}")
