"""Every kind of node that is imported, and every op that is written: the table's rows, and functions by family."""

from __future__ import annotations

from ..correspondence.reading import Pair, Read, readers
from ..correspondence.tables import TABLE
from ..correspondence.writing import Write, writers
from . import (
    attention,
    constants,
    control,
    elementwise,
    export_control,
    export_movement,
    export_reduce,
    export_windows,
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
    slicing,
    windows,
)

_PAIRS: dict[str, Pair] = {**elementwise.PAIRS, **reduce.PAIRS, **normalize.PAIRS}

HANDLERS: dict[str, Read] = {
    **readers(TABLE, "onnx", _PAIRS),
    **attention.HANDLERS,
    **constants.HANDLERS,
    **control.HANDLERS,
    **fourier.HANDLERS,
    **indexing.HANDLERS,
    **matmul.HANDLERS,
    **movement.HANDLERS,
    **normalize.HANDLERS,
    **positions.HANDLERS,
    **quantize.HANDLERS,
    **recurrent.HANDLERS,
    **resize.HANDLERS,
    **sampling.HANDLERS,
    **scan.HANDLERS,
    **slicing.HANDLERS,
    **windows.HANDLERS,
}
"""ONNX op type (`domain::type` outside the default domain) to its importer."""

WRITERS: dict[str, Write] = {
    **writers(TABLE, "onnx", _PAIRS),
    **export_control.EXPORTERS,
    **export_movement.EXPORTERS,
    **export_reduce.EXPORTERS,
    **export_windows.EXPORTERS,
}
"""Op name to what writes its nodes; inputs, constants and outputs are the exporter's own."""
