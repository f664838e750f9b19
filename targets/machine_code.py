"""The schema of machine code in ELF files: how addresses are written into it.

The rows are in the files of this folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ..base.records import dataclass


class Relocation(NamedTuple):
    """The meaning of one type of relocation.

    `of`: the address of the symbol, or that of a slot that holds the symbol's address. `field`: what is written, an
    `address` or the `distance` from the field, both in `size` bytes; the `page` distance of an instruction that adds
    pages; the `low` bits of an address within a page, in units of 2**`size` bytes; the distance of a `branch`.
    """

    of: Literal["symbol", "slot"]
    field: Literal["address", "distance", "page", "low", "branch"]
    size: int = 0


@dataclass(frozen=True)
class MachineCode:
    """One machine's code in ELF files.

    Args:
        number: the machine in the header of a file (`e_machine`).
        page: the largest pages that its systems use.
        relocations: by their numbers.
        address: the relocation for an address in 8 bytes.
        distance: the relocation for a distance in 4 bytes.
        relative: what a loader adds the load address to.
        resolved: what a loader calls a function for, whose result is the address.
        jump: the instruction that jumps to the address which is kept at the distance that follows.
        padding: fills the space between functions; a trap where they are bytes.
    """

    number: int
    page: int
    relocations: Mapping[int, Relocation]
    address: int
    distance: int
    relative: int
    resolved: int
    jump: bytes = b""
    padding: bytes = b"\0"


MACHINE_CODE: dict[int, MachineCode] = {}
"""The machines by their number in ELF files."""
