"""A folder of arrays by name, as .npy files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ..base.whole_file import make_folder, write_array

_MAX_BYTES = 200  # of a name: systems take 255 with its ending and number


class ArrayFolder:
    """A folder, which is made if there is none."""

    def __init__(self, folder: str) -> None:
        make_folder(folder)
        self._folder, self._taken = Path(folder), set[Path]()

    def write(self, name: str, array: np.ndarray[Any, Any]) -> str:
        """Return the file that an array is saved to. Characters that a name cannot hold become `_`; raise UserError if
        the system refuses."""
        number = len(self._taken)
        plain = re.sub(r"[^\w.-]", "_", name).lstrip(".").encode()[:_MAX_BYTES]
        stem = plain.decode(errors="ignore") or f"output_{number}"
        path = self._folder / f"{stem}.npy"
        path = self._folder / f"{stem}_{number}.npy" if path in self._taken else path
        self._taken.add(path)
        write_array(path, array)
        return str(path)
