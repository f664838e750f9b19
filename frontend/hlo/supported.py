"""Which opcodes and element types of a module are not supported: all are reported at once, before the import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ...base.errors import UnsupportedError
from ..refusals import DEFINED, HOST
from .op_table import HANDLERS
from .shapes import DTYPES, PARTS, UNBOUNDED, Shape
from .syntax import Called, Computation, Module

OWN = ("parameter", "constant")
"""Opcodes that are the importer's own."""

_RANDOM = "its values differ from run to run, so pass them as inputs or use rng-bit-generator"
_REMEDIES = {"rng": _RANDOM, "rng-get-and-update-state": _RANDOM, "infeed": HOST, "outfeed": HOST}


def _reachable(module: Module) -> Iterator[Computation]:
    """The entry and everything it calls, each once."""
    waiting, seen = [module.entry], {module.entry}
    while waiting:
        computation = module.computations[waiting.pop()]
        yield computation
        for instruction in computation.instructions:
            for value in instruction.attributes.values():
                for called in value if isinstance(value, tuple) else (value,):
                    if isinstance(called, Called) and called.name not in seen:
                        seen.add(called.name)
                        waiting.append(called.name)


def check_supported(module: Module) -> None:
    """UnsupportedError with every opcode and element type that is not handled."""
    words = ("opcodes", "element types")
    found = [
        f"these {what} are not supported: "
        + ", ".join(_shown(name, count) for name, count in sorted(counted.items()))
        for what, counted in zip(words, foreign(_reachable(module)), strict=True)
        if counted
    ]
    if found:
        raise UnsupportedError(f"{module.origin.label}: {'; '.join(found)}", DEFINED)


def _shown(name: str, count: int) -> str:
    remedy = f": {_REMEDIES[name]}" if name in _REMEDIES else ""
    return f"{name} ({count}x{remedy})"


def foreign(computations: Iterable[Computation]) -> tuple[Counter[str], Counter[str]]:
    """How often each opcode and element type occurs that is not handled."""
    opcodes: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for computation in computations:
        for instruction in computation.instructions:
            if instruction.opcode not in HANDLERS and instruction.opcode not in OWN:
                opcodes[instruction.opcode] += 1
            types.update(_foreign_types(instruction.shape))
    return opcodes, types


def _foreign_types(shape: Shape | None) -> Iterator[str]:
    if shape is None:
        return
    if shape.is_tuple:
        for element in shape.elements:
            yield from _foreign_types(element)
    elif shape.type not in DTYPES and shape.type not in PARTS and shape.type != "token":
        yield shape.type
    elif UNBOUNDED in shape.dims:
        yield shape.logical()
