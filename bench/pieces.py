"""A suite timed in pieces: rows of finished cases are kept in a file, and a later run goes on with the others."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.pipes import read_file
from ..base.whole_file import write_file
from .engines import Row
from .tables import row_of, to_json


class Pieces:
    """The rows of a suite so far. A file from an earlier run gives its rows; all are written there after each case.

    `minutes`: no case is begun later than this after the start. Raise UserError for a file that this does not write, or
    writes for another number of threads.
    """

    def __init__(self, path: Path | None, minutes: float, threads: int) -> None:
        self.rows: list[Row] = []
        self.done: list[str] = []
        self.left: list[str] = []
        self._path, self._threads = path, threads
        self._end = time.monotonic() + 60 * minutes
        if path is not None and path.exists():
            self._read(path)

    def begins(self, label: str) -> bool:
        """Return whether a case is to be timed now; one for which there is no time is `left`."""
        if label in self.done:
            return False
        if time.monotonic() >= self._end:
            self.left.append(label)
            return False
        return True

    def keep(self, label: str, rows: list[Row]) -> None:
        """Add the rows of a case."""
        self.rows += rows
        self.done.append(label)
        if self._path is not None:
            facts = {**to_json(self.rows, self._threads), "done": self.done}
            write_file(self._path, json.dumps(facts, indent=1) + "\n")

    def _read(self, path: Path) -> None:
        try:
            facts: dict[str, Any] = json.loads(read_file(path))
            self.rows, self.done = [row_of(row) for row in facts["rows"]], facts["done"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"'{path}' has no rows of a suite to go on from; --resume takes a new file, or one that it wrote"
            ) from error
        if facts["threads"] != self._threads:
            raise UserError(
                f"the rows in '{path}' are of {facts['threads']} threads, and this run has {self._threads}; "
                "give another file for it"
            )
