"""safetensors files: a table of tensors in JSON, and their bytes, which stay in the mapped file.

A file is the length of the table (u64), the table, and the data. The table maps names to dtype, shape and the range of
bytes; sizes and ranges are checked against the file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import UnsupportedError, UserError
from ...base.file_errors import unreadable
from ...base.mapped_file import map_file
from ..decoder.weights import BF16, Weight

_KINDS = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": BF16, "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1",
}  # fmt: skip
_MAX_TABLE = 100 << 20


def read_safetensors(path: Path) -> dict[str, Weight]:
    """Return the tensors of a file by name. Raise UserError for a corrupt file, UnsupportedError for a dtype of few
    bits."""
    try:
        data = np.frombuffer(map_file(path), np.uint8)
    except OSError as error:
        raise unreadable(path, error) from error
    size = int.from_bytes(data[:8].tobytes(), "little")
    if len(data) < 8 or size > min(_MAX_TABLE, len(data) - 8):
        raise _rule(
            path,
            "a safetensors file must begin with the length of its table",
            f"{size} of {len(data)} bytes",
        )
    try:
        table = json.loads(data[8 : 8 + size].tobytes())
    except (ValueError, RecursionError) as error:
        raise _rule(path, "the table must be JSON", str(error)) from None
    if not isinstance(table, dict):
        raise _rule(path, "the table must be a JSON object", type(table).__name__)
    rows = {name: row for name, row in table.items() if name != "__metadata__"}
    return {name: _tensor(path, data[8 + size :], name, row) for name, row in rows.items()}


def _tensor(path: Path, data: Any, name: str, row: Any) -> Weight:
    try:
        dims = tuple(int(one) for one in row["shape"])
        begin, end = (int(one) for one in row["data_offsets"])
        dtype = str(row["dtype"])
    except (TypeError, KeyError, ValueError):
        raise _rule(
            path, f"'{name}' must have dtype, shape and data_offsets", str(row)[:80]
        ) from None
    if dtype not in _KINDS:
        what = f"'{path}': dtype {dtype} of '{name}' is not supported"
        raise UnsupportedError(what, f"known are {', '.join(_KINDS)}")
    kind = _KINDS[dtype]
    size = 2 if kind == BF16 else np.dtype(kind).itemsize
    if (
        min(dims, default=0) < 0
        or not 0 <= begin <= end <= len(data)
        or end - begin != math.prod(dims) * size
    ):
        raise _rule(
            path,
            f"'{name}' must have {math.prod(dims) * size} bytes inside the file",
            f"[{begin}, {end})",
        )
    rows = math.prod(dims[:-1])
    return Weight(
        name,
        dims,
        kind,
        data[begin:end].reshape(rows, -1) if end > begin else data[:0].reshape(rows, 0),
    )


def _rule(path: Path, rule: str, values: str) -> UserError:
    text = f"'{path}': {rule}, got {values}"
    return UserError(text)
