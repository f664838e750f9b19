"""Reads the text of a model file."""

from __future__ import annotations

import os
from pathlib import Path

from ..base.errors import UserError

MAX_BYTES = 1 << 30
"""Models as text hold no weights: a bigger file is something else."""


def read_text(source: str | os.PathLike[str] | bytes, label: str, what: str) -> tuple[str, str]:
    """The text in a file, or in the bytes of one, which messages call `label`; and what messages call it.

    `what` is what the file should be. UserError if it cannot be read, is not UTF-8 or exceeds `MAX_BYTES`.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        data = bytes(source)
    else:
        path = Path(source)
        label = str(path)
        try:
            if path.stat().st_size > MAX_BYTES:
                raise UserError(f"{path}: a {what} must not exceed {MAX_BYTES >> 30} GiB")
            data = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        return data.decode("utf-8-sig"), label
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{label} line {line}: a {what} must be UTF-8 text") from error
