"""Every kind of operator that is read, and every op that is written: the rows of the table, and functions by family."""

from __future__ import annotations

from ..correspondence.gathering import op_table
from ..correspondence.reading import Read
from ..correspondence.tables import TABLE
from . import (  # noqa: F401
    attention,
    complex_numbers,
    contraction,
    detection,
    fourier,
    functions,
    indexing,
    quantization,
    recurrent,
    structure,
)
from .scope import Handler, Node, Results

_READS, WRITERS = op_table(TABLE, "pnnx", globals())
_ROWS = TABLE.reads("pnnx")


def _handler(type_name: str, read: Read | Handler) -> Handler:
    """Return a handler that reads operands by position, in the order of the row's cell."""
    if isinstance(read, Handler):
        return read

    def run(node: Node) -> Results:
        found = read(node)
        return tuple(found) if isinstance(found, list) else found

    _, spelling = _ROWS[type_name][0]
    is_dynamic = any(formal.variadic for formal in spelling.formals)
    slots = ("*",) if is_dynamic else tuple(formal.name for formal in spelling.formals)
    return Handler(run, slots, spelling.ignored)


def _as_raw(handlers: dict[str, Handler]) -> dict[str, Handler]:
    """Functions of operands alone as the tool writes those it does not know: ATen has operands in the same order."""
    found: dict[str, Handler] = {}
    for type_name, ((_, spelling), *_) in _ROWS.items():
        prefix, _, name = type_name.partition(".")
        plain = all(not (f.holds or f.optional or f.variadic) for f in spelling.formals)
        if prefix in ("torch", "Tensor") and plain and not spelling.attributes:
            found[f"aten::{name}"] = handlers[type_name]
    return found


_TYPES = {type_name: _handler(type_name, read) for type_name, read in _READS.items()}

HANDLERS = {**_as_raw(_TYPES), **_TYPES}
"""PNNX operator type to its importer; pnnx.Input and pnnx.Output are the importer's own.

`WRITERS`: graph op to its writer; what is not there has no form in PNNX.
"""
