"""Every kind of operator that is read, and every op that is written: the rows of the table, and functions by family."""

from __future__ import annotations

from collections.abc import Iterator

from ..correspondence.gathering import of_all
from ..correspondence.reading import Pair, Read, readers
from ..correspondence.spelling import Spelling
from ..correspondence.tables import TABLE
from ..correspondence.writing import Write, writers
from . import (  # noqa: F401
    activation,
    arithmetic,
    attention,
    contraction,
    indexing,
    movement,
    normalize,
    recurrent,
    reduce,
    resize,
    structure,
    windows,
)
from .scope import Handler, Node, Results


def _handler(read: Read, spelling: Spelling) -> Handler:
    """Operands may be given by position in the order of the cell."""

    def run(node: Node) -> Results:
        found = read(node)
        return tuple(found) if isinstance(found, list) else found

    is_open = any(formal.variadic for formal in spelling.formals)
    slots = ("*",) if is_open else tuple(formal.name for formal in spelling.formals)
    return Handler(run, slots, spelling.ignored)


def _by_table(pairs: dict[str, Pair]) -> Iterator[tuple[str, Handler]]:
    rows = TABLE.reads("pnnx")
    for type_name, read in readers(TABLE, "pnnx", pairs).items():
        yield type_name, _handler(read, rows[type_name][0][1])


_PAIRS: dict[str, Pair] = of_all(globals(), "PAIRS")

HANDLERS: dict[str, Handler] = {**dict(_by_table(_PAIRS)), **of_all(globals(), "HANDLERS")}
"""PNNX operator type to its importer; pnnx.Input and pnnx.Output are the importer's own."""

WRITERS: dict[str, Write] = {**writers(TABLE, "pnnx", _PAIRS), **of_all(globals(), "EXPORTERS")}
"""Graph op to its writer; what is not here has no form in PNNX."""
