"""The forms that exporters of all families share, and the words of element types."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph_ir.ir.graph import Array, GraphTensor, Op
from .export import Exporter
from .program import WORD_DTYPES

ExportFunction = Callable[[Exporter, Op], str | tuple[str, ...]]
"""Writes one op; returns the operand of its result, or of each of its results."""

WORDS: dict[str, str] = {}
"""Element type names as parameters spell them."""

for _word, _dtype in WORD_DTYPES.items():
    WORDS.setdefault(_dtype.name, _word)


def call(type_name: str, *keys: str, **attrs: str) -> ExportFunction:
    """The op's attributes as parameters: `attrs` gives the parameter for each attribute with its default."""

    def export(e: Exporter, op: Op) -> str:
        return e.call(op, type_name, *keys, **{p: op.attr(a) for p, a in attrs.items()})  # type: ignore[attr-defined]

    return export


def own_constant(x: GraphTensor, rank: int) -> bool:
    """A plain constant of that rank with one reader and a dtype that can be written."""
    is_constant = x.producer_owner.op_name == "constant" and x.details.format.is_plain
    known = x.details.dtype.name in WORDS
    return is_constant and known and x.details.rank == rank and len(x.uses) == 1


def value_of(x: GraphTensor) -> Array:
    """The array of a constant."""
    return np.asarray(x.producer_owner.attrs["value"])
