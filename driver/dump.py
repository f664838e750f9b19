"""The dump folder: the text of every stage of a compilation that changed something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..base.whole_file import make_folder, write_file


class StageDump:
    """Writes stages to `NN_name.txt` in a folder; without a folder it does nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.number = 0
        if folder:
            make_folder(folder)

    def write(self, name: str, text: Callable[[], str], changed: bool = True) -> None:
        """Count the stage; write its text if it changed anything. Raise UserError if that fails."""
        if self.folder and changed:
            write_file(self.folder / f"{self.number:02d}_{name}.txt", text())
        self.number += 1
