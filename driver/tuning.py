"""Measured schedules, kept in an SQLite file: what `graphc tune` finds and `graphc compile` uses.

A row is keyed by problem, CPU, ISA, threads and compiler version, so that machines may share a file, and rows become
stale when any of them changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import UserError
from ..graph_ir.ir.schedule import Schedule, parse_schedule
from ..targets.isa import Target
from .versions import versions

if TYPE_CHECKING:
    import sqlite3

_SCHEMA = """
create table if not exists schedule (
    problem text, cpu text, isa text, threads integer, compiler text,
    schedule text, gflops real,
    primary key (problem, cpu, isa, threads, compiler)
)
"""


def default_file(environ: Mapping[str, str] = os.environ) -> Path:
    """GRAPHC_TUNING, else graphc/tuning.sqlite in the user's cache folder."""
    if environ.get("GRAPHC_TUNING"):
        return Path(environ["GRAPHC_TUNING"])
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "graphc" / "tuning.sqlite"


class TuningFile:
    """The measured schedules of one file, for one target and thread count."""

    def __init__(self, path: Path, target: Target, threads: int) -> None:
        self.path = path
        found = versions()
        self._key = (
            target.cpu,
            target.isa,
            threads,
            f"graphc {found['graphc']} llvm {found['llvm']}",
        )

    def read(self) -> dict[str, Schedule]:
        """Every schedule that fits this target, by problem; none if there is no file. Raise UserError if it is
        corrupt."""
        if not self.path.exists():
            return {}
        with self._open() as database:
            rows = database.execute(
                "select problem, schedule from schedule "
                "where cpu = ? and isa = ? and threads = ? and compiler = ?",
                self._key,
            ).fetchall()
        return {problem: parse_schedule(text) for problem, text in rows}

    def write(self, problem: str, schedule: Schedule, gflops: float) -> None:
        """Keep a schedule as the best of its problem."""
        with self._open() as database:
            database.execute(
                "insert or replace into schedule values (?, ?, ?, ?, ?, ?, ?)",
                (problem, *self._key, str(schedule), gflops),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        import sqlite3  # most compilations have no tuning file

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=10.0)) as database, database:
                database.execute(_SCHEMA)
                yield database
        except (sqlite3.Error, OSError) as error:
            raise UserError(
                f"tuning file '{self.path}' cannot be used: {error}; give another, or delete it"
            ) from error


def tuned_schedules(
    target: Target, threads: int, path: str | os.PathLike[str] | None = None
) -> dict[str, Schedule]:
    """Measured schedules for a target, by problem string, from a tuning file; none where there is no file."""
    return TuningFile(Path(path) if path else default_file(), target, threads).read()
