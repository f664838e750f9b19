"""Ports of core families: what an instruction of a loop occupies, and for how long.

`ASSEMBLY` reads the lines of an architecture's assembly as `Step`s, `PORTS` says what each kind of step costs on a core
family. `tools.hot_loop` computes the least time of a loop from both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..base.records import dataclass


@dataclass(frozen=True)
class Step:
    """One instruction: its kind (a key of `CoreFamily.costs`), the registers it reads and writes, and its memory.

    `addresses`: the registers that say where its memory lies. `bits`: width of its vector registers, 0 for scalars.
    `multiply_adds` that it does. Memory on the stack also counts as a register, named by its address; `spill` says
    that a vector lies there.
    """

    kind: str
    bits: int = 0
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    loads: bool = False
    stores: bool = False
    spill: bool = False
    multiply_adds: int = 0


@dataclass(frozen=True)
class Cost:
    """The ports that may run each micro-operation, cycles to the result, and cycles each one keeps its port."""

    ports: tuple[str, ...]
    latency: int = 1
    busy: float = 1.0


@dataclass(frozen=True)
class CoreFamily:
    """The cost of steps on a core: by kind, for vectors of at most 256 bits and for wider ones.

    `width`: micro-operations renamed per cycle; a load that feeds an operation is part of it.
    """

    width: int
    costs: Mapping[str, Cost]
    wide: Mapping[str, Cost]

    def cost(self, kind: str, bits: int) -> Cost:
        """Return what a kind of step costs; that of `add` for a kind without a row."""
        narrow = self.costs.get(kind, self.costs["add"])
        return self.wide.get(kind, narrow) if bits > 256 else narrow


Reader = Callable[[str], Step | None]

ASSEMBLY: dict[str, Reader] = {}
"""Name of an instruction set -> what reads one line: None for a label, a directive or a comment."""

PORTS: dict[str, CoreFamily] = {}
"""Core families by `Machine.family`; others are taken for `MODEL`."""

MODEL = "zen5"
