"""Reads the text of a model file, or tells that it is none."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..base.errors import UserError
from ..base.file_errors import unreadable

MAX_BYTES = 1 << 30
"""Models as text hold no weights: a bigger file is something else."""

BYTECODE = b"ML\xefR"
"""The magic number of MLIR's bytecode; files of jax.export hold it behind a table."""

_MLIR_TEXT = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s++|//[^\n]*+\n|#[^\n]*+\n)*+"
    rb"(?:\"?builtin\.module|module\b[^\n]*\{|func\.func\b)"
)
_TABLE = 4096  # bytes of a file before its bytecode


def is_stablehlo(head: bytes) -> bool:
    """Return whether a file that begins like this holds MLIR, as text, as bytecode, or in a file of jax.export."""
    return BYTECODE in head[:_TABLE] or bool(_MLIR_TEXT.match(head))


def read_text(source: str | os.PathLike[str] | bytes, label: str, what: str) -> tuple[str, str]:
    """The text in a file, or in the bytes of one, which messages call `label`; and what messages call it.

    `what` is what the file should be. Raise UserError if it cannot be read, is not UTF-8 or exceeds `MAX_BYTES`.
    """
    data, label = read_bytes(source, label, what)
    return decoded(data, label, what), label


def read_bytes(source: str | os.PathLike[str] | bytes, label: str, what: str) -> tuple[bytes, str]:
    """The contents of a file, or the bytes given; and what messages call it. May raise UserError."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), label
    path = Path(source)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UserError(f"{path}: a {what} must not exceed {MAX_BYTES >> 30} GiB")
        return path.read_bytes(), str(path)
    except OSError as error:
        raise unreadable(path, error) from error


def decoded(data: bytes, label: str, what: str) -> str:
    """The text of a file's bytes. Raise UserError if it is not UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"{label} line {line}: a {what} must be UTF-8 text") from error
