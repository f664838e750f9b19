"""The dump folder: the text of every stage of a compilation that changed something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..base.file_errors import unwritable


class StageDump:
    """Writes stages to `NN_name.txt` in a folder; without a folder it does nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.number = 0
        if folder:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise unwritable(folder, error) from error

    def write(self, name: str, text: Callable[[], str], changed: bool = True) -> None:
        """Count the stage; write its text if it changed anything. Raise UserError if that fails."""
        if self.folder and changed:
            path = self.folder / f"{self.number:02d}_{name}.txt"
            try:
                path.write_text(text(), encoding="utf-8")
            except OSError as error:
                raise unwritable(path, error) from error
        self.number += 1
