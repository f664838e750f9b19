"""The tests that `make quick` runs: those nearest to the changed files, along imports."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.process import ROOT, run_python
from support.quick import changed_files, nearest

FILES = {
    "__init__.py": "",
    "low/__init__.py": "",
    "low/a.py": "x = 1\n",
    "low/alone.py": "",
    "high/__init__.py": "",
    "high/b.py": "from ..low.a import x\n",
    "tests/support/helper.py": "import graphc.high.b\n",
    "tests/low/test_a.py": "import numpy\n",
    "tests/low/test_other.py": "from support.helper import x\n",
    "tests/high/test_b.py": "from graphc.high import b\n",
    "tests/test_direct.py": "from graphc.low.a import x\n",
    "tests/golden/low/test_a/test_x.txt": "x\n",
    "tests/docs/test_docs.py": "",
    "docs/index.md": "",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "reached"),
    [
        (
            "low/a.py",
            {
                "tests/low/test_a.py": 0,
                "tests/low/test_other.py": 3,  # of the same folder
                "tests/test_direct.py": 1,
                "tests/high/test_b.py": 2,
            },
        ),
        ("high/b.py", {"tests/high/test_b.py": 0, "tests/low/test_other.py": 2}),
        ("tests/support/helper.py", {"tests/low/test_other.py": 1}),
        ("tests/test_direct.py", {"tests/test_direct.py": 0}),
        ("tests/golden/low/test_a/test_x.txt", {"tests/low/test_a.py": 0}),
        ("tests/golden/low/test_gone/test_x.txt", {}),
        ("docs/index.md", {"tests/docs/test_docs.py": 0}),
        ("low/alone.py", {}),
        ("low/deleted.py", {}),
        ("pyproject.toml", {}),
    ],
)
def test_nearest(tree: Path, changed: str, reached: dict[str, int]) -> None:
    assert list(nearest(tree, [changed]).items()) == list(reached.items())


def test_several_files_reach_all_that_each_reaches(tree: Path) -> None:
    both = nearest(tree, ["tests/support/helper.py", "docs/index.md"])
    assert both == {"tests/docs/test_docs.py": 0, "tests/low/test_other.py": 1}
    assert nearest(tree, []) == {}


def _git(folder: Path, *words: str) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, env=environ, check=True, capture_output=True)


def test_changed_files(tree: Path) -> None:
    assert changed_files(tree) == set(), "no clone"
    _git(tree, "init", "--initial-branch=main")
    _git(tree, "add", ".")
    _git(tree, "commit", "-m", "x")
    assert changed_files(tree) == set()
    (tree / "low" / "a.py").write_text("x = 2\n")
    (tree / "low" / "new.py").write_text("")
    assert changed_files(tree) == {"low/a.py", "low/new.py"}, "not committed"
    _git(tree, "checkout", "-b", "branch")
    _git(tree, "add", ".")
    _git(tree, "commit", "-m", "y")
    (tree / "docs" / "index.md").write_text("x")
    assert changed_files(tree) == {"low/a.py", "low/new.py", "docs/index.md"}, "since main"


def test_the_files_of_this_tree_are_printed() -> None:
    done = run_python("-m", "support.quick", env={"PYTHONPATH": f"{ROOT / 'tests'}:{ROOT.parent}"})
    assert done.returncode == 0, done.stderr
    assert "tests/test_layering.py" in done.stdout.split()
    assert all((ROOT / name).is_file() for name in done.stdout.split())
