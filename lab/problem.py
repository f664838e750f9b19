"""A problem: what to compute, on which operands, and how much work it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

from ..base.aligned_memory import aligned_copy
from ..base.dims import Size, Symbol, evaluate, symbols_of
from ..base.dtypes import DType
from ..base.errors import UserError
from ..base.records import dataclass
from ..bench.dynamic_case import arrays_of
from ..bench.operands import Operand
from ..graph_ir.ir.graph import Graph
from ..runtime.abi import ALIGNMENT
from .program import Array, Program

MAX_BYTES = 8 << 30


@dataclass(frozen=True)
class Problem:
    """One problem, read from `text`.

    `model`: ONNX, or a graph that no other engine reads. `operations`: multiplications and additions of one run.
    `node`: the op of the model that a schedule is for. `multiplied`: the type whose peak bounds it.
    """

    text: str
    model: bytes | Graph
    inputs: Mapping[str, Operand]
    operations: Size = 0
    node: str = ""
    multiplied: str = "f32"
    sizes: Sequence[Mapping[str, int]] = field(default=({},))
    """The sizes of dynamic dimensions at which it is measured."""
    given: Mapping[str, Array] = field(default_factory=dict)
    """Inputs that are not any values."""

    @property
    def label(self) -> str:
        """Return the problem for a message."""
        return f"problem '{self.text}'"

    @property
    def specs(self) -> dict[str, str]:
        """Return the specs of inputs with dynamic dimensions, for compiling; those of a graph are its own."""
        if isinstance(self.model, Graph):
            return {}
        return {name: str(one) for name, one in self.inputs.items() if symbols_of(one.dims)}

    def arrays(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        """The given inputs, else random ones with a fixed seed."""
        if self.given:
            return {name: aligned_copy(array, ALIGNMENT) for name, array in self.given.items()}
        return arrays_of(self.inputs, sizes)

    def gop(self, sizes: Mapping[str, int]) -> float:
        """Return 1e9 operations of one run."""
        return evaluate(self.operations, sizes) / 1e9


def problem_of(
    program: Program,
    result: str,
    operations: Size = 0,
    node: str = "",
    multiplied: str = "f32",
    dtype: DType | None = None,
) -> Problem:
    """Return the problem of a finished program with this result, of the program's type or another."""
    model, inputs = program.model(result, dtype), program.inputs
    sizes = measured_sizes(inputs)
    return Problem(program.name, model, inputs, operations, node, multiplied, sizes)


def measured_sizes(operands: Mapping[str, Operand]) -> tuple[dict[str, int], ...]:
    """The sizes at which a problem with dynamic dimensions is measured: least, geometric middle and largest of all."""
    symbols = {s.name: s for one in operands.values() for s in symbols_of(one.dims)}
    if not symbols:
        return ({},)
    return tuple({name: pick(symbol) for name, symbol in symbols.items()} for pick in _PICKS)


def _middle(symbol: Symbol) -> int:
    return max(symbol.least, min(symbol.most, round(math.sqrt(max(symbol.least, 1) * symbol.most))))


_PICKS = (lambda symbol: symbol.least, _middle, lambda symbol: symbol.most)


def check_memory(text: str, bytes_needed: Size) -> None:
    """UserError, before anything is allocated, if operands need more than `MAX_BYTES` at the largest sizes."""
    most = {symbol.name: symbol.most for symbol in symbols_of([bytes_needed])}
    if evaluate(bytes_needed, most) > MAX_BYTES:
        raise UserError(
            f"problem '{text}' needs more than {MAX_BYTES >> 30} GiB of operands; choose smaller sizes"
        )
