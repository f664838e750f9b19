"""Every kind of node that is imported, and every op that is written: the table's rows, and functions by family."""

from __future__ import annotations

from typing import Any

from ..correspondence.reading import Pair, Read, readers
from ..correspondence.tables import TABLE
from ..correspondence.writing import Write, writers
from . import (
    attention,
    constants,
    control,
    elementwise,
    export_control,
    fourier,
    indexing,
    matmul,
    movement,
    normalize,
    positions,
    quantize,
    recurrent,
    reduce,
    resize,
    sampling,
    scan,
    windows,
)

_FAMILIES: tuple[Any, ...] = (
    attention,
    constants,
    control,
    elementwise,
    export_control,
    fourier,
    indexing,
    matmul,
    movement,
    normalize,
    positions,
    quantize,
    recurrent,
    reduce,
    resize,
    sampling,
    scan,
    windows,
)


def _of_all(table: str) -> dict[str, Any]:
    """What the families have under one name, together."""
    return {key: value for family in _FAMILIES for key, value in getattr(family, table, {}).items()}


_PAIRS: dict[str, Pair] = _of_all("PAIRS")

HANDLERS: dict[str, Read] = {**readers(TABLE, "onnx", _PAIRS), **_of_all("HANDLERS")}
"""ONNX op type (`domain::type` outside the default domain) to its importer."""

WRITERS: dict[str, Write] = {**writers(TABLE, "onnx", _PAIRS), **_of_all("EXPORTERS")}
"""Op name to what writes its nodes; inputs, constants and outputs are the exporter's own."""
