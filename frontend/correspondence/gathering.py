"""Collects what the modules of a format read and write, its op table, and the rows that user code adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from ...base.errors import UserError
from .reading import Pair, Read, readers
from .row import Op, Table
from .writing import Write, writers

ADDED: dict[str, Op] = {}
"""Rows of user code, by the name of their op."""

_gathered: list[tuple[str, dict[str, Read], dict[str, Write]]] = []
"""Readers and writers of the formats loaded so far, by their names."""


def of_all(families: Mapping[str, object], table: str) -> dict[str, Any]:
    """The dictionaries called `table` of the modules in a namespace, merged. Raise ValueError for a key of two
    modules."""
    found: dict[str, Any] = {}
    for family in families.values():
        own = getattr(family, table, {}) if isinstance(family, ModuleType) else {}
        if twice := found.keys() & own.keys():
            raise ValueError(f"{table} of {family} and of another module have {sorted(twice)}")
        found |= own
    return found


def op_table(
    table: Table, format_name: str, families: Mapping[str, object]
) -> tuple[dict[str, Read], dict[str, Write]]:
    """Return the reader of each type of node and the writer of each op: from rows, or from functions of the
    format's modules.

    `families` is the namespace (`globals()`) of a module that imports those of the format. Their `PAIRS` are the
    functions that cells name after `by`; `HANDLERS` read and `EXPORTERS` write types that no cell names.
    """
    pairs: dict[str, Pair] = of_all(families, "PAIRS")
    read = readers(table, format_name, pairs) | of_all(families, "HANDLERS")
    write = writers(table, format_name, pairs) | of_all(families, "EXPORTERS")
    for row in ADDED.values():
        _extend(row, format_name, read, write)
    _gathered.append((format_name, read, write))
    return read, write


def add_row(row: Op) -> None:
    """Have formats read and write an op of user code by its cells of a row, which replaces one of the same op.

    Raise UserError for a type that graphc reads itself, ValueError for a cell that is not written as `spelling` says.
    """
    for format_name in row.cells:
        row.spellings(format_name)
    old = ADDED.pop(row.name, None)
    for format_name, read, write in _gathered:
        if old is not None:
            for type_name in Table([old]).reads(format_name):
                read.pop(type_name, None)
            write.pop(old.name, None)
        _extend(row, format_name, read, write)
    ADDED[row.name] = row


def _extend(row: Op, format_name: str, read: dict[str, Read], write: dict[str, Write]) -> None:
    own = readers(Table([row]), format_name, {})
    if taken := sorted(own.keys() & read.keys()):
        raise UserError(
            f"op '{row.name}': graphc reads {format_name} '{taken[0]}' itself; give the op another type"
        )
    read.update(own)
    write.update(writers(Table([row]), format_name, {}))
