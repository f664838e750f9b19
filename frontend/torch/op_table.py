"""Every ATen operator that is read, by its name without `aten::` and overload.

Most are read as the functions of Python of the same name, which PNNX's column of the table spells; the column
`aten` has those of core ATen that are called otherwise or take other arguments.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator

from ..correspondence.gathering import op_table
from ..correspondence.reading import Read, readers
from ..correspondence.row import Row, Table
from ..correspondence.tables import TABLE
from . import (  # noqa: F401
    attention,
    complex_numbers,
    contraction,
    control,
    creation,
    elementwise,
    functions,
    indexing,
    linear_algebra,
    lookup,
    memory,
    movement,
    normalization,
    quantization,
    reduction,
    windows,
)
from .scalars import OVER_AN_AXIS, of_scalars_too

_PREFIXES = ("F.", "Tensor.", "torch.", "aten::")
"""Namespaces of functions; if two functions share a name, the one with the later prefix is the operator."""


def _functions(*prefixes: str) -> Iterator[tuple[str, Read]]:
    """The functions that PNNX calls as Python does, and that need nothing of its files."""
    known = Table(row for row in TABLE.rows if _pairs_of(row) <= functions.PAIRS.keys())
    found = readers(known, "pnnx", functions.PAIRS)
    for prefix in prefixes:
        for type_name, read in found.items():
            if type_name.startswith(prefix):
                yield type_name.removeprefix(prefix), read


def _pairs_of(row: Row) -> set[str]:
    return {spelling.pair for spelling in row.spellings("pnnx") if spelling.pair}


_ATEN, _ = op_table(TABLE, "aten", globals())

FUNCTIONAL = dict(_functions("F."))
"""Function of `torch.nn.functional` to its importer, which knows arguments by the names that Python gives them."""

_FUNCTIONS = dict(_functions(*_PREFIXES))

_ALL = ChainMap(_ATEN, _FUNCTIONS)

HANDLERS = ChainMap({name: of_scalars_too(_ALL[name]) for name in OVER_AN_AXIS}, *_ALL.maps)
"""Operator to its importer."""
