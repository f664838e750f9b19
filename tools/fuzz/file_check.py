"""Checks a file: read, checked as the graph that it becomes, and run unchanged by ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

from ...frontend import load
from ...graph_ir.ir.graph import Array, Graph
from .case import Case, FileCase
from .check import Check, check, outcome_of
from .format_route import MODEL, run_file
from .outcome import Outcome


class _FileCheck(Check):
    """The stages of a file."""

    def __init__(self, file: FileCase) -> None:
        super().__init__(Case(Graph("unread"), file.arrays, file.setting))
        self._file = file

    def run(self) -> None:
        self.stage = "read"
        self.case = Case(load(self._file.model), self._file.arrays, self._file.setting)
        super().run()

    def _peer_twin(self) -> Graph:
        return self.case.graph

    def _peer_results(self, folder: Path) -> list[Array]:
        (folder / MODEL).write_bytes(self._file.model)
        return run_file(folder, [op.name for op in self.case.graph.inputs], self._file.arrays)


def check_any(case: Case | FileCase) -> Outcome:
    """Return the outcome of a case in this process, which may not survive it."""
    return outcome_of(_FileCheck(case)) if isinstance(case, FileCase) else check(case)
