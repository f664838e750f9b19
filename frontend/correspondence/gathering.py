"""Collects what the modules of a format read and write: its op table."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from .reading import Pair, Read, readers
from .row import Table
from .writing import Write, writers


def of_all(families: Mapping[str, object], table: str) -> dict[str, Any]:
    """The dictionaries called `table` of the modules in a namespace, merged. ValueError for a key of two modules."""
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
    """How a format reads each type of node and writes each op: by its rows, or by functions of its modules.

    `families` is the namespace (`globals()`) of a module that imports those of the format. Their `PAIRS` are what cells
    name after `by`; `HANDLERS` read and `EXPORTERS` write what no cell names.
    """
    pairs: dict[str, Pair] = of_all(families, "PAIRS")
    read = readers(table, format_name, pairs) | of_all(families, "HANDLERS")
    return read, writers(table, format_name, pairs) | of_all(families, "EXPORTERS")
