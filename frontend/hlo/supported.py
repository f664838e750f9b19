"""Unsupported opcodes and element types of a module: all are reported at once, before the import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from ...base.errors import UnsupportedError
from ..refusals import DEFINED, HOST, OTHER_TYPE
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
    """UnsupportedError with every opcode, element type and size that is not handled."""
    words = ("opcodes", "element types", "shapes without a bound")
    remedies = (DEFINED, OTHER_TYPE, "give each size a number, or a bound (`<=8`)")
    told = zip(words, remedies, foreign(_reachable(module)), strict=True)
    found = [(what, remedy, counted) for what, remedy, counted in told if counted]
    if found:
        lists = (
            f"these {what} are not supported: "
            + ", ".join(_shown(name, count) for name, count in sorted(counted.items()))
            for what, _, counted in found
        )
        remedy = "; ".join(remedy for _, remedy, _ in found)
        raise UnsupportedError(f"{module.origin.label}: {'; '.join(lists)}", remedy)


def _shown(name: str, count: int) -> str:
    remedy = f": {_REMEDIES[name]}" if name in _REMEDIES else ""
    return f"{name} ({count}x{remedy})"


def foreign(computations: Iterable[Computation]) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Count the unsupported opcodes, element types and unbounded shapes."""
    opcodes: Counter[str] = Counter()
    types: Counter[str] = Counter()
    shapes: Counter[str] = Counter()
    for computation in computations:
        for instruction in computation.instructions:
            if instruction.opcode not in HANDLERS and instruction.opcode not in OWN:
                opcodes[instruction.opcode] += 1
            for shape in _leaves(instruction.shape):
                if UNBOUNDED in shape.dims:
                    shapes[shape.logical()] += 1
                elif shape.type not in DTYPES and shape.type not in PARTS and shape.type != "token":
                    types[shape.type] += 1
    return opcodes, types, shapes


def _leaves(shape: Shape | None) -> Iterator[Shape]:
    """The arrays of a shape, those in tuples too."""
    if shape is not None and shape.is_tuple:
        for element in shape.elements:
            yield from _leaves(element)
    elif shape is not None:
        yield shape
