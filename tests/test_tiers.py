"""Exhaustive tests: each day takes its share, and any days in a row take every case."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from support.process import run_python
from support.tiers import DAYS, of_day

DAY = datetime.date(2026, 1, 31)
GRID = """
import pytest
@pytest.mark.exhaustive
@pytest.mark.parametrize("n", range(24))
def test_grid(n): pass
@pytest.mark.exhaustive
def test_alone(): pass
@pytest.mark.parametrize("n", range(24))
def test_all(n): pass
"""


@pytest.mark.parametrize("count", [0, 1, 2, DAYS - 1, DAYS, DAYS + 1, 529])
def test_any_days_in_a_row_take_every_case(count: int) -> None:
    names = [f"test_x[{n}]" for n in range(count)]
    days = [of_day(names, DAY + datetime.timedelta(n)) for n in range(DAYS)]
    assert set.union(*days) == set(names)
    assert all(len(taken) >= min(count, max(count // DAYS, 1)) for taken in days)
    assert all(len(taken) <= -(-count // DAYS) for taken in days)
    assert of_day(reversed(names), DAY) == days[0]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a grid, under the conftest of this suite."""
    folder = tmp_path_factory.mktemp("suite")
    tests = Path(__file__).parent
    (folder / "test_grid.py").write_text(GRID)
    (folder / "conftest.py").write_text((tests / "conftest.py").read_text())
    settings = f'[tool.pytest.ini_options]\npythonpath = ["{tests}"]\nmarkers = ["exhaustive"]\n'
    (folder / "pyproject.toml").write_text(settings)
    return folder


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["--day", "2026-01-31", "-n", "2"], "28 passed"),
        (["--exhaustive"], "49 passed"),
        (["--update-golden"], "49 passed"),
        (["test_grid.py::test_grid"], "24 passed"),
        (["-k", "test_grid"], "49 passed"),
    ],
    ids=" ".join,
)
def test_a_run_takes(suite: Path, words: list[str], counts: str) -> None:
    done = run_python("-m", "pytest", "-q", *words, cwd=suite)
    assert done.returncode == 0, done.stdout + done.stderr
    assert counts in done.stdout
    assert ("--day 2026-01-31 takes them again" in done.stdout) == ("--day" in words)
