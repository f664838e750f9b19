"""Error bounds: how far a correct implementation may be from the NumPy reference, measured for every value.

Besides the exact evaluation of the references (float64, rounded once per op), a few more run in which every float
result is perturbed by its op's rounding error: a few units in the last place, plus the error of partial sums of K terms
(`sum_rounding`). The drift of the perturbed values from the exact ones shows how much the graph amplifies rounding; a
value that is off by several times as much is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from ..base.dims import Dim
from ..base.records import dataclass
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op, op_at_sizes
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ir.op_kinds import CompositeOp
from ..graph_ir.ops.control import Case, While
from ..graph_ir.ops.dynamic_sizes import Count
from ..graph_ir.rewriting.groups import is_elementwise
from .drift import MOVING, disturb, drift_bound, is_step, reach_of, step_walks, units_of
from .rebuild import all_values
from .sum_rounding import DEVIATIONS, sum_noise

DISTURBED = 3
"""Number of perturbed evaluations."""

CAREFUL = 30
"""The same before a result is called wrong: errors of two terms that cancel in three evaluations may be missed."""


@dataclass(frozen=True)
class Expected:
    """The reference value of a tensor and the error bound of each element (float64; 0 for integers)."""

    value: Array
    bound: Array

    def error(self, actual: Array) -> Error:
        """Compare a result with this."""
        if actual.shape != self.value.shape or actual.dtype != self.value.dtype:
            return Error(math.inf, 0.0, math.inf, 0)
        if not actual.size:
            return Error(0.0, 0.0, 0.0, 0)
        a, e = actual.astype(np.float64), self.value.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (a == e) | (np.isnan(a) & np.isnan(e))
            off = np.where(same, 0.0, np.abs(a - e))
            share = np.where(off == 0, 0.0, off / np.maximum(self.bound, np.finfo(float).tiny))
        off[np.isnan(off)] = share[np.isnan(share)] = math.inf
        worst = int(np.argmax(share))
        bound = float(np.broadcast_to(self.bound, off.shape).reshape(-1)[worst])
        return Error(float(off.reshape(-1)[worst]), bound, float(share.reshape(-1)[worst]), worst)


@dataclass(frozen=True)
class Error:
    """The worst element of a result: its error, its bound, error / bound, and its flat position."""

    absolute: float
    bound: float
    share: float
    position: int

    @property
    def ok(self) -> bool:
        """Return whether every element is within its bound."""
        return self.share <= 1.0

    def __str__(self) -> str:
        return f"error {self.absolute:.3g} where {self.bound:.3g} is allowed, at element {self.position}"


def walk_expected(
    graph: Graph, inputs: Sequence[Array], walks: int = DISTURBED
) -> Iterator[tuple[Op, list[tuple[GraphTensor, Expected]]]]:
    """Run the references op by op, yielding each op with the expected values of its outputs.

    For `output` ops it is the value of their operand. An array is dropped after its last use. `walks`:
    perturbed evaluations.
    """
    rng = np.random.default_rng(11)
    values: dict[GraphTensor, list[Array]] = {}
    bounds: dict[GraphTensor, Array] = {}
    left = {y: len(y.uses) for op in graph.ops for y in op.outputs}
    sizes: dict[str, int] = {}
    fed = iter(inputs)
    for op in graph.ops:
        if op.is_output:
            tensor = op.inputs[0]
            yield op, [(tensor, Expected(values[tensor][0], bounds[tensor]))]
        else:
            made = [np.asarray(next(fed))] if op.is_input else None
            given = [values[x] for x in op.inputs]
            at = op_at_sizes(op, [several[0] for several in given], sizes)
            known = [bounds[x] for x in op.inputs]
            results = _walks(at, given, made, rng, walks, known)
            sizes.update(_counted(op, results[0]))
            for tensor, found, bound in zip(op.outputs, *results, strict=True):
                values[tensor], bounds[tensor] = found, bound
            yield op, [(y, Expected(values[y][0], bounds[y])) for y in op.outputs]
        for tensor in (*op.inputs, *(y for y in op.outputs if not left[y])):
            left[tensor] -= 1
            if left[tensor] <= 0:
                values.pop(tensor, None)
                bounds.pop(tensor, None)


def _counted(op: Op, walks: Sequence[Sequence[Array]]) -> dict[str, int]:
    """The number that an op has counted, by the name of the size that it is: that of the first evaluation."""
    is_dynamic = isinstance(op, Count) and isinstance(op.size[0], Dim)
    return {str(op.attr("size")[0]): int(walks[0][0][0])} if is_dynamic else {}


def expected_outputs(
    graph: Graph, inputs: Sequence[Array], walks: int = DISTURBED
) -> list[Expected]:
    """Return the expected values of the graph's outputs, and their bounds from `walks` perturbed evaluations."""
    walked = walk_expected(graph, inputs, walks)
    return [pairs[0][1] for op, pairs in walked if op.is_output]


def worst_error(expected: Sequence[Expected], actual: Sequence[Array]) -> Error:
    """The largest error of the results, relative to its bound."""
    errors = [e.error(a) for e, a in zip(expected, actual, strict=True)]
    return max(errors, key=lambda error: error.share)


def _walks(
    op: Op,
    inputs: list[list[Array]],
    given: list[Array] | None,
    rng: np.random.Generator,
    walks: int,
    known: list[Array],
) -> tuple[list[list[Array]], list[Array]]:
    """Per output: its value in every evaluation (the exact one first), and its bound. `known`: bounds of operands."""
    with np.errstate(all="ignore"):
        if op.kind == "source":
            exact = given if given is not None else op.reference([])
            return [[y] * (walks + 1) for y in exact], [np.zeros(()) for _ in exact]
        exact = op.reference([values[0] for values in inputs])
        if is_step(op):
            stepped, bound = step_walks(op, inputs, exact[0], known[0], rng)
            return [[exact[0], *stepped]], [bound]
        noises = _noises(op, [values[0] for values in inputs], exact)
        disturbed = [
            _disturbed(op, [values[number] for values in inputs], noises, rng)
            for number in range(1, walks + 1)
        ]
        inexact = [number for number, bound in enumerate(known) if bound.any()]
        if len(inexact) == 1 and (is_elementwise(op) or op.op_name == "dequantize"):
            # An element is as far off as its operand is: a step that an operand makes stays where it is.
            (number,) = inexact
            first = [values[0] for values in inputs]
            bounds = [reach_of(op, first, number, known[number], exact[0], disturbed) + noises[0]]
        else:
            bounds = [
                drift_bound(y, noise, [walk[i] for walk in disturbed])
                for i, (y, noise) in enumerate(zip(exact, noises, strict=True))
            ]
    return [[y, *(walk[i] for walk in disturbed)] for i, y in enumerate(exact)], bounds


def _disturbed(
    op: Op, arrays: list[Array], noises: list[Array] | None, rng: np.random.Generator
) -> list[Array]:
    """The op's results, each off by one standard deviation of its noise; `noises`: None to find them here."""
    if isinstance(op, (Case, While)):
        return _disturbed_control(op, arrays, rng)
    if isinstance(op, CompositeOp):  # its parts round too, and read what is rounded
        arrays = [disturb(x, units_of(x), rng) for x in arrays]
        results = _disturbed_graph(_parts(op), arrays, rng)
    else:
        results = op.reference(arrays)
    noises = _noises(op, arrays, results) if noises is None else noises
    return [disturb(y, n / DEVIATIONS, rng) for y, n in zip(results, noises, strict=True)]


def _disturbed_control(
    op: Case | While, arrays: list[Array], rng: np.random.Generator
) -> list[Array]:
    """The subgraphs that run, with every op in them perturbed."""
    if isinstance(op, Case):
        index = int(arrays[0])
        chosen = index if 0 <= index < len(op.branches) else -1
        return _disturbed_graph(op.branches[chosen], arrays[1:], rng)
    state, fixed = arrays[: op.carried], arrays[op.carried :]
    while bool(op.condition.evaluate([*state, *fixed])[0]):
        state = _disturbed_graph(op.body, [*state, *fixed], rng)
    return state


@lru_cache(maxsize=64)
def _parts(op: CompositeOp) -> Graph:
    """Return the decomposition of a composite op, as a graph of its inputs."""
    graph = Graph(op.name)
    inputs = [
        graph.make_input(LogicalTensor(x.details.dtype, x.details.plain_dims)) for x in op.inputs
    ]
    twin = graph.make(op.op_name, inputs, op.attrs, op.name)
    assert isinstance(twin, CompositeOp)
    for tensor in twin.decompose(graph):
        graph.make_output(tensor)
    graph.remove([twin])
    graph.sort()
    return graph


def _disturbed_graph(graph: Graph, arrays: list[Array], rng: np.random.Generator) -> list[Array]:
    sizes: dict[str, int] = {}

    def run(op: Op, own: list[Array]) -> list[Array]:
        at = op_at_sizes(op, own, sizes)
        made = at.reference(own) if op.kind == "source" else _disturbed(at, own, None, rng)
        sizes.update(_counted(op, [made]))
        return made

    values = all_values(graph, arrays, run)
    return [values[op.inputs[0]] for op in graph.outputs]


def _noises(op: Op, inputs: list[Array], outputs: list[Array]) -> list[Array]:
    """The error that the op's own rounding may cause in each output element."""
    if op.op_name in MOVING:
        return [np.zeros(()) for _ in outputs]
    sums = sum_noise(op, inputs, outputs)
    if op.op_name == "gelu" and outputs[0].dtype == np.float64:
        return [units_of(outputs[0]) * _exponent(inputs[0], outputs[0])]
    return [np.asarray(units_of(y) + noise) for y, noise in zip(outputs, sums, strict=True)]


def _exponent(x: Array, y: Array) -> Array:
    """1 + |ln(y / x)|: there is no exact f64 gelu, and rounding moves the exponent in it relative to its size."""
    share = np.abs(y) / np.maximum(np.abs(x), np.finfo(np.float64).tiny)
    return 1 + np.abs(np.log(np.maximum(share, np.finfo(np.float64).tiny)))
