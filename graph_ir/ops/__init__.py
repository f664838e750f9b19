"""One file per op family. Importing this package fills the registry."""

from . import (
    activation,
    cast,
    compare,
    copy,
    elementwise_binary,
    elementwise_unary,
    fused,
    gather,
    matmul,
    movement,
    pad,
    reduce,
    select,
    structure,
)

__all__ = [
    "activation",
    "cast",
    "compare",
    "copy",
    "elementwise_binary",
    "elementwise_unary",
    "fused",
    "gather",
    "matmul",
    "movement",
    "pad",
    "reduce",
    "select",
    "structure",
]
