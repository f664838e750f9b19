"""Every kind of node that is imported; one table per family."""

from __future__ import annotations

from . import (
    attention,
    constants,
    control,
    elementwise,
    fourier,
    indexing,
    matmul,
    movement,
    normalize,
    places,
    quantize,
    recurrent,
    reduce,
    resize,
    sampling,
    scan,
    slicing,
    windows,
)
from .scope import Handler

HANDLERS: dict[str, Handler] = {
    **attention.HANDLERS,
    **constants.HANDLERS,
    **control.HANDLERS,
    **elementwise.HANDLERS,
    **fourier.HANDLERS,
    **indexing.HANDLERS,
    **matmul.HANDLERS,
    **movement.HANDLERS,
    **normalize.HANDLERS,
    **places.HANDLERS,
    **quantize.HANDLERS,
    **recurrent.HANDLERS,
    **reduce.HANDLERS,
    **resize.HANDLERS,
    **sampling.HANDLERS,
    **scan.HANDLERS,
    **slicing.HANDLERS,
    **windows.HANDLERS,
}
"""ONNX op type (of the default domain) to its importer."""
