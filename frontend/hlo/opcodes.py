"""Ops by opcode, from the table of all formats."""

from __future__ import annotations

from ..correspondence.row import Op
from ..correspondence.tables import TABLE, activation, elementwise

_CELLS = [
    (row.name, spelling)
    for row in TABLE.rows
    for spelling in row.spellings("hlo")
    if isinstance(row, Op) and not spelling.pair
]

OPS = {s.types[0]: name for name, s in _CELLS if not s.attributes}
"""Opcode to op, of those that need no more than their operands."""

OPCODES = {name: s.types[0] for name, s in _CELLS if s.is_written and not s.attributes}
"""Op to opcode."""

DIRECTIONS = {str(s.attributes[0].literal): name for name, s in _CELLS if s.types[0] == "compare"}
"""Direction of a `compare` to op."""

ELEMENTWISE = {
    opcode
    for row in (*elementwise.ROWS, *activation.ROWS)
    for spelling in row.spellings("hlo")
    for opcode in spelling.types
}
"""Opcodes that the table has for functions of one element."""
