"""`graphc dev kernel`: a table, numbers, sweeps, and folders to edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphc import cli

Capture = pytest.CaptureFixture[str]
QUICK = ("--threads", "1", "--seconds", "0.002", "-q")


def kernel(*words: str) -> int:
    return cli.main(["dev", "kernel", *QUICK, *words])


def facts(capsys: Capture, *words: str) -> Any:
    capsys.readouterr()
    assert kernel(*words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_problem_is_a_table_or_numbers(capsys: Capture) -> None:
    assert kernel("matmul", "m8n32k16", "f32", "+relu", "--vs", "ort", "--steps", "--asm") == 0
    out = capsys.readouterr().out
    assert "of the roof" in out and "1.00x  graphc" in out and "ort" in out
    assert "tensorize" in out and "for " in out
    assert max(map(len, out.split("\n\n")[1].splitlines())) <= 100
    (row,) = facts(capsys, "softmax 5x17")["rows"]
    assert row["engines"]["graphc"]["seconds"] > 0 and row["bytes"] == 2 * 4 * 5 * 17


def test_dynamic_dimensions_have_a_row_for_each_size(capsys: Capture) -> None:
    found = facts(capsys, "matmul m=1..16n32k16")
    assert [row["sizes"]["m"] for row in found["rows"]] == [1, 4, 16]


def test_settings_and_steps_are_the_schedule(capsys: Capture) -> None:
    problem = "matmul m8n32k16"
    (chosen,) = facts(capsys, problem, "--set", "mr=2,nv=1")["kernels"]
    assert "tensorize 2x1" in chosen["schedule"]
    (same,) = facts(capsys, problem, "--schedule", chosen["schedule"])["kernels"]
    assert same["schedule"] == chosen["schedule"]


def test_a_sweep_is_a_table_a_map_and_a_picture(tmp_path: Path, capsys: Capture) -> None:
    grid = ("matmul m8n32k16", "--sweep", "mr=2,4,nv=1,2,99")
    picture = tmp_path / "map.svg"
    assert kernel(*grid, "--svg", str(picture)) == 0
    out = capsys.readouterr().out
    assert "4 of 6 schedules ran" in out and "refused: mr=2 nv=99" in out and "mr=2" in out
    assert picture.read_text().startswith("<svg")
    found = facts(capsys, *grid)
    assert len(found["points"]) == 6 and sum("refused" in point for point in found["points"]) == 2


def test_a_folder_is_edited_and_compared(tmp_path: Path, capsys: Capture) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        assert kernel("matmul m8n32k16", "--export", str(folder)) == 0
    assert kernel("--ab", str(first), f"{second}:s") == 0
    assert "first / second: " in capsys.readouterr().out
    assert facts(capsys, "--ab", str(first), str(second))["verdict"]
    other = tmp_path / "c"
    assert kernel("matmul m9n32k16", "--export", str(other)) == 0
    assert kernel("--ab", str(first), str(other)) == 2
    assert "must name versions of one problem" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "takes a problem, or two folders"),
        (("matmul m1n1k1", "--ab", "a", "b"), "takes a problem, or two folders"),
        (("matmul m1n1k1", "--vs", "abacus"), "peer 'abacus' is not known"),
        (("softmax 3x5", "--set", "mr=4"), "schedule"),
        (("softmax 3x5", "--seconds=-1"), "--seconds must be a time above 0, got -1"),
    ],
)
def test_what_cannot_be_done_is_said(words: tuple[str, ...], message: str, capsys: Capture) -> None:
    assert kernel(*words) == 2
    assert message in capsys.readouterr().err
