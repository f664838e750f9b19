"""The file of measured schedules."""

import sqlite3
from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.driver.tuning import TuningFile, default_file
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.targets.isa import Target

TARGET = Target("avx2", "somecpu")
SCHEDULE = parse_schedule("gemm mr=4 nv=3 mc=64 kc=256 ng=1 b=panels")


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    file = TuningFile(tmp_path / "new" / "t.sqlite", TARGET, 1)
    assert file.read() == {}
    file.write("matmul m1n1k1 f32", SCHEDULE, 10.0)
    better = SCHEDULE.replaced(kc=512)
    file.write("matmul m1n1k1 f32", better, 20.0)
    assert file.read() == {"matmul m1n1k1 f32": better}


def test_another_cpu_isa_or_thread_count_sees_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    TuningFile(path, TARGET, 1).write("p", SCHEDULE, 1.0)
    for target, threads in (
        (Target("avx2", "other"), 1),
        (Target("generic", "somecpu"), 1),
        (TARGET, 2),
    ):
        assert TuningFile(path, target, threads).read() == {}


def test_a_corrupt_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(b"not a database, but long enough to be looked at" * 10)
    with pytest.raises(UserError, match="tuning file '.*' cannot be used: file is not a database"):
        TuningFile(path, TARGET, 1).read()


def test_a_file_of_another_shape_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("create table schedule (problem text)")
    database.close()
    with pytest.raises(UserError, match="cannot be used"):
        TuningFile(path, TARGET, 1).read()


def test_where_the_file_is_by_default() -> None:
    assert default_file({"GRAPHC_TUNING": "/x/y"}) == Path("/x/y")
    assert default_file({"XDG_CACHE_HOME": "/c"}) == Path("/c/graphc/tuning.sqlite")
