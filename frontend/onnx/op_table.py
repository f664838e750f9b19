"""All importers and writers: the table's rows, and functions by family."""

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
    """Merge the families' tables of the same name."""
    return {key: value for family in _FAMILIES for key, value in getattr(family, table, {}).items()}


_PAIRS: dict[str, Pair] = _of_all("PAIRS")

HANDLERS: dict[str, Read] = {**readers(TABLE, "onnx", _PAIRS), **_of_all("HANDLERS")}
"""ONNX op type (`domain::type` outside the default domain) to its importer."""

WRITERS: dict[str, Write] = {**writers(TABLE, "onnx", _PAIRS), **_of_all("EXPORTERS")}
"""Writers by op name; the exporter itself handles inputs, constants and outputs."""
