"""All importers and writers: the table's rows, and functions by family."""

from __future__ import annotations

from ..correspondence.gathering import op_table
from ..correspondence.tables import TABLE
from . import (  # noqa: F401
    attention,
    blocked_layout,
    boxes,
    branches,
    casting,
    channels_last,
    constants,
    control,
    elementwise,
    export_control,
    export_quantize,
    features,
    flex_attention,
    fourier,
    fused_ops,
    group_attention,
    head_attention,
    indexing,
    linear_algebra,
    matmul,
    mixture,
    movement,
    ngrams,
    normalize,
    positions,
    qonnx,
    qonnx_recurrent,
    quantize,
    quantized_layers,
    quantized_matmuls,
    quantized_recurrent,
    quark,
    recurrent,
    reduce,
    resize,
    rotary,
    sampling,
    scan,
    sequences,
    skip_normalize,
    stateful,
    svm,
    training,
    trees,
    weight_only,
    windows,
)

HANDLERS, WRITERS = op_table(TABLE, "onnx", globals())
"""ONNX op type (`domain::type` outside the default domain) to its importer; op name to its writer.

The exporter itself handles inputs, constants and outputs.
"""
