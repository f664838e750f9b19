"""Exported problems: every stage can be edited and built again, checked, and compared with another version."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.codegen.host import target_for
from graphc.lab.ab import compare
from graphc.lab.folder import read_version, write_folder
from graphc.lab.read import read_problem
from graphc.lab.trial import Bench

TEXT = "matmul m5n24k16 f32 +relu"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lab") / "kernel"
    write_folder(folder, read_problem(TEXT), Bench(target_for("native"), 1))
    return folder


def later(path: Path, text: str) -> None:
    """Write a file as edited after the export."""
    path.write_text(text)
    os.utime(path, ns=(path.stat().st_mtime_ns + 10**9,) * 2)


def test_every_stage_builds_the_same_kernel(exported: Path) -> None:
    problem, target = read_problem(TEXT), target_for("native")
    stages = [path.name for path in exported.glob("*.tir")] + ["ll", "s", "o"]
    assert len(stages) >= 7
    for stage in stages:
        versions = [read_version(f"{exported}:{name}", target) for name in ("o", stage)]
        found = compare(versions, problem, 1, 0.002)
        assert found.low <= found.ratio <= found.high


def test_the_file_edited_last_is_built(exported: Path, tmp_path: Path) -> None:
    copy, target = tmp_path / "copy", target_for("native")
    shutil.copytree(exported, copy)
    assert read_version(str(copy), target).label.endswith("kernel.o")
    text = (copy / "0_lowered.tir").read_text()
    assert "max(" in text
    later(copy / "0_lowered.tir", text.replace("max(", "min("))
    edited = read_version(str(copy), target)
    assert edited.label.endswith("0_lowered.tir")
    with pytest.raises(
        UserError, match=r"0_lowered.tir gives wrong results: .*its time would say nothing"
    ):
        compare([read_version(str(exported), target), edited], read_problem(TEXT), 1, 0.002)


@pytest.mark.parametrize(
    ("stage", "text", "message"),
    [
        ("0_lowered.tir", "def f(:\n", "0_lowered.tir: Tensor IR text, line 1"),
        ("kernel.ll", "define nonsense", "kernel.ll: "),
        ("kernel.s", "\tvfmadd231ps %zmm0\n", "kernel.s: "),
    ],
)
def test_a_broken_edit_is_shown(
    exported: Path, tmp_path: Path, stage: str, text: str, message: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    later(copy / stage, text)
    with pytest.raises(UserError, match=message):
        read_version(str(copy), target_for("native"))


def test_folders_are_told_apart(exported: Path, tmp_path: Path) -> None:
    target = target_for("native")
    with pytest.raises(UserError, match="must be a folder that"):
        read_version(str(tmp_path), target)
    with pytest.raises(UserError, match="has no stage 'xyz'; it has kernel.o, kernel.s"):
        read_version(f"{exported}:xyz", target)
    with pytest.raises(UserError, match="needs a new or empty folder"):
        write_folder(exported, read_problem(TEXT), Bench(target, 1))
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    (copy / "problem.json").write_text("{")
    with pytest.raises(UserError, match="is corrupt"):
        read_version(str(copy), target)


@pytest.mark.skipif(
    shutil.which("make") is None or shutil.which("cc") is None, reason="no C compiler"
)
@pytest.mark.parametrize("text", [TEXT, "matmul m=2..5n9k8 bf16", "conv c4h6w6o8k3 u8xs8"])
def test_the_program_in_c_checks_and_times_it(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "kernel"
    write_folder(folder, read_problem(text), Bench(target_for("native"), 1))
    done = subprocess.run(["make", "-s", "run"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " us, largest error " in done.stdout
    assert json.loads((folder / "problem.json").read_text())["problem"] == text
