"""Operands that decide a result's shape but are only known at run time: axes, sizes, numbers of repetitions.

A model declares the shapes of its results, so that only few values of such an operand can be right: often one. The node
is imported for each, a `case` selects between them, and a check of the graph makes every run with another value an
error. Nothing is guessed: a value without a declared result is refused, with the remedy to fix it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice

import numpy as np

from ...base.dtypes import BOOL, S64
from ...base.errors import UserError
from ...base.records import dataclass
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ..correspondence.compositions.control import choice, finished, inputs_like
from ..op_builder import OpBuilder, Value
from .scope import NodeContext, Scope

Dims = tuple[int, ...]
_MAX_TRIED = 256
_MAX_BRANCHES = 32

Wild = Callable[[NodeContext, Sequence[int]], list[Sequence[int]]]
Import = Callable[[Graph, Mapping[str, Value]], list[Value]]
"""Imports a node into a graph for these values of its operands."""


@dataclass(frozen=True)
class Operand:
    """One operand whose value decides a shape: its position and the values that it may have.

    `values(node, declared)` are lists of numbers, given the declared shapes of the results; those with which the node
    cannot be imported, or gives other shapes, are left out. `wraps(node)`: negative numbers count from the back of so
    many. `is_set`: their order does not matter. `wild(node, value)`: numbers that mean the same as those of the value,
    by position.
    """

    index: int
    values: Callable[[NodeContext, list[Dims]], Iterable[Sequence[int]]]
    wraps: Callable[[NodeContext], int] | None = None
    is_set: bool = False
    wild: Wild | None = None


def _rank(node: NodeContext) -> int:
    return node.details(0).rank


def _reshape_wild(node: NodeContext, value: Sequence[int]) -> list[Sequence[int]]:
    """-1 stands for the size that is left, 0 for that of the input."""
    dims = node.details(0).plain_dims
    kept = () if node.attr_int("allowzero", 0) else dims
    same = [0 if kept[i : i + 1] == (size,) else size for i, size in enumerate(value)]
    return [[-1] * len(value), same]


def _expand_wild(node: NodeContext, value: Sequence[int]) -> list[Sequence[int]]:
    """1 where the input has the size."""
    dims = (1,) * len(value) + node.details(0).plain_dims
    own = dims[len(dims) - len(value) :]
    return [[1 if size == dim else size for size, dim in zip(value, own, strict=True)]]


def _repeats(node: NodeContext, declared: list[Dims]) -> Iterable[Dims]:
    dims = node.details(0).plain_dims
    if all(dims):
        yield tuple(n // dim for n, dim in zip(declared[0], dims, strict=True))


def _parts(node: NodeContext, declared: list[Dims]) -> Iterable[Dims]:
    axis = node.attr_int("axis")
    return [tuple(dims[axis] for dims in declared)]


def _resized(node: NodeContext, declared: list[Dims]) -> Iterable[Dims]:
    axes = node.attr_ints("axes", None)
    if node.attr_text("keep_aspect_ratio_policy") != "stretch":
        return  # many sizes give the same shape, by other scales
    yield declared[0] if axes is None else tuple(declared[0][axis] for axis in axes)


def _blocks(node: NodeContext, declared: list[Dims]) -> Iterable[Dims]:
    """Sizes of the blocks whose elements are the columns of an im2col matrix."""
    total = node.details(0).plain_dims[1] // max(declared[0][1], 1)
    sizes = [n for n in range(1, total + 1) if total % n == 0]
    many = itertools.product(sizes, repeat=len(declared[0]) - 2)
    return (block for block in many if math.prod(block) == total)


_AXES = (
    Operand(
        1, lambda node, _: combinations(range(_rank(node)), node.details(1).elements), _rank, True
    ),
)
_NEW_AXES = Operand(
    1,
    lambda node, declared: combinations(range(len(declared[0])), node.details(1).elements),
    lambda node: _rank(node) + node.details(1).elements,
    is_set=True,
)
_ONE_SIZE = Operand(1, lambda node, declared: ((size,) for size in dict.fromkeys(declared[0])))
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


def _axis_at(index: int) -> Operand:
    return Operand(index, lambda node, _: ((axis,) for axis in range(_rank(node))), _rank)


def _shape_at(index: int, wild: Wild | None = None) -> Operand:
    return Operand(index, lambda _, declared: declared[:1], wild=wild)


OPERANDS: dict[str, tuple[Operand, ...]] = {
    **{f"Reduce{kind}": _AXES for kind in _REDUCTIONS},
    "Squeeze": _AXES,
    "Unsqueeze": (_NEW_AXES,),
    **dict.fromkeys(("CumSum", "CumProd"), (_axis_at(1),)),
    "DFT": (_ONE_SIZE, _axis_at(2)),
    "Reshape": (_shape_at(1, _reshape_wild),),
    "Expand": (_shape_at(1, _expand_wild),),
    "ConstantOfShape": (_shape_at(0),),
    "Tile": (Operand(1, _repeats),),
    **dict.fromkeys(("TopK", "OneHot"), (_ONE_SIZE,)),
    "Split": (Operand(1, _parts),),
    "Resize": (Operand(3, _resized),),
    "Col2Im": (Operand(1, lambda _, declared: [declared[0][2:]]), Operand(2, _blocks)),
    "MaxUnpool": (_shape_at(2),),
    "STFT": (Operand(1, lambda node, _: ((n,) for n in range(1, node.details(0).plain_dims[1] + 1))),),
}  # fmt: skip
"""Operands that a run may determine, by op type; known operands, or attributes of the opset, are skipped."""


def unknown_operands(node: NodeContext) -> list[Operand]:
    """The operands that decide shapes and depend on the model's inputs."""
    return [
        one
        for one in OPERANDS.get(node.type, ())
        if node.has(one.index) and node.known(one.index) is None
    ]


def import_for_values(
    node: NodeContext, unknown: Sequence[Operand], run: Import
) -> list[Value] | None:
    """The results of a node with such operands; None where the model does not declare their shapes."""
    declared = [node.scope.declared.get(name) for name in node.node.output if name]
    known = [dims for dims in declared if dims is not None]
    if node.scope.checks is None or len(known) != len(declared):
        return None
    choices = list(_possible(node, unknown, run, known))
    if not choices or len(choices) > _MAX_BRANCHES:
        return None
    fits = _fits(node, unknown, choices)
    names = " and ".join(f"'{node.key_of(one.index)}'" for one in unknown)
    shown = " or ".join(str([list(v) for v in c])[1:-1] for c in choices[:4])
    results = ", ".join(str(list(dims)) for dims in known)
    node.scope.require(
        node.helper("reduce_any", fits, axes=(0,), keep_dims=False),
        f"{node.type} '{node.name}': {names} must be {shown}, as the result is declared to be {results}; "
        "compile it for another value (`constants=`)",
    )
    if len(choices) == 1 or node.type in ("Squeeze", "Unsqueeze"):  # results of one shape are equal
        return run(node.graph, _bound(node, unknown, choices[0]))
    index = node.helper("arg_max", fits, axis=0, keep_dims=False)
    return list(_case(node, node.converted(index, S64), unknown, choices, run))


def bind_implied(scope: Scope, name: str, sizes: Sequence[int | None]) -> None:
    """Give an input the value it must have (None: any), which each run checks."""
    tensor = scope.tensor(name)
    build = OpBuilder(scope.graph, "input", name)
    wanted = np.array([1 if size is None else size for size in sizes])
    free = build.constant([size is None for size in sizes], BOOL)
    given = build.reshaped(build.converted(tensor, S64), wanted.shape)
    fits = build.helper("or", build.helper("eq", given, build.constant(wanted, S64)), free)
    shown = ", ".join("any" if size is None else str(size) for size in sizes)
    message = f"input '{name}' must be [{shown}], as the results are declared; compile it for another value"
    scope.require(build.helper("reduce_all", fits, axes=(0,), keep_dims=False), message)
    dtype, dims = tensor.details.dtype, tensor.details.plain_dims
    scope.values[name] = wanted.astype(dtype.numpy).reshape(dims)


def _possible(
    node: NodeContext, unknown: Sequence[Operand], run: Import, declared: list[Dims]
) -> Iterator[tuple[Sequence[int], ...]]:
    """Values of the operands with which the node gives the declared shapes."""
    lists = [list(islice(one.values(node, declared), _MAX_TRIED)) for one in unknown]
    for choice_ in islice(itertools.product(*lists), _MAX_TRIED):
        counts = [node.details(one.index).elements for one in unknown]
        if [len(value) for value in choice_] != counts:
            continue
        try:
            results = _in_branch(node, unknown, choice_, run)[1]
        except UserError:
            continue
        if [y.details.plain_dims for y in results] == declared:
            yield choice_


def _bound(
    node: NodeContext, unknown: Sequence[Operand], values: Sequence[Sequence[int]]
) -> dict[str, Value]:
    """The operands' values as arrays of their types, by name."""
    return {
        node.key_of(one.index): _array(node, one, value)
        for one, value in zip(unknown, values, strict=True)
    }


def _array(node: NodeContext, operand: Operand, value: Sequence[int]) -> Array:
    details = node.details(operand.index)
    return np.array(value).astype(details.dtype.numpy).reshape(details.plain_dims)


def _in_branch(
    node: NodeContext, unknown: Sequence[Operand], values: Sequence[Sequence[int]], run: Import
) -> tuple[Graph, list[GraphTensor]]:
    """A graph that takes the node's other tensors and runs it for these values, and its results."""
    graph = Graph(f"{node.name}.branch")
    outer = _others(node, unknown)
    tensors = inputs_like(graph, [x for _, x in outer])
    bound = _bound(node, unknown, values)
    names = [name for name, _ in outer]
    results = run(graph, {**bound, **dict(zip(names, tensors, strict=True))})
    made = [y if isinstance(y, GraphTensor) else graph.make_constant(y) for y in results]
    finished(graph, tensors, made)
    return graph, made


def _others(node: NodeContext, unknown: Sequence[Operand]) -> list[tuple[str, GraphTensor]]:
    mine = {node.key_of(one.index) for one in unknown}
    names = dict.fromkeys(name for name in node.node.input if name and name not in mine)
    values = [(name, node.scope.values[name]) for name in names]
    return [(name, value) for name, value in values if isinstance(value, GraphTensor)]


def _case(
    node: NodeContext,
    index: GraphTensor,
    unknown: Sequence[Operand],
    choices: Sequence[Sequence[Sequence[int]]],
    run: Import,
) -> list[GraphTensor]:
    branches = [_in_branch(node, unknown, values, run)[0] for values in choices]
    return choice(node, index, branches, [x for _, x in _others(node, unknown)])


def _fits(
    node: NodeContext, unknown: Sequence[Operand], choices: Sequence[Sequence[Sequence[int]]]
) -> GraphTensor:
    """Return whether the operands have the values of each choice: bool[choices]."""
    found = None
    for number, operand in enumerate(unknown):
        values = [choice_[number] for choice_ in choices]
        fit = _fit(node, operand, values)
        found = fit if found is None else node.helper("and", found, fit)
    assert found is not None
    return found


def _fit(node: NodeContext, operand: Operand, values: Sequence[Sequence[int]]) -> GraphTensor:
    """Return which of the values the operand has: bool[values]."""
    count = len(values[0])
    given = node.reshaped(node.converted(node.tensor(operand.index), S64), (1, count))
    if operand.wraps is not None:
        size = operand.wraps(node)
        below = node.helper("lt", given, node.constant(0, S64))
        given = node.helper(
            "select", below, node.helper("add", given, node.constant(size, S64)), given
        )
        if operand.is_set:
            return _same_set(node, given, values, size)
    wanted = np.array(values).reshape(len(values), count)
    equal = node.helper("eq", given, node.constant(wanted, S64))
    wild = [operand.wild(node, value) for value in values] if operand.wild else []
    for other in zip(*wild, strict=True):
        also = node.helper("eq", given, node.constant(np.array(other), S64))
        equal = node.helper("or", equal, also)
    return node.helper("reduce_all", equal, axes=(1,), keep_dims=False)


def _same_set(
    build: OpBuilder, given: GraphTensor, values: Sequence[Sequence[int]], size: int
) -> GraphTensor:
    """Return which of the sets of numbers below `size` equals the given one, [1, count], in any order."""
    column = build.reshaped(given, (given.details.elements, 1))
    hits = build.helper("eq", column, build.constant(np.arange(size)[None], S64))
    hit = build.helper("reduce_any", hits, axes=(0,), keep_dims=True)
    wanted = np.array([[i in value for i in range(size)] for value in values])
    same = build.helper("eq", hit, build.graph.make_constant(wanted, f"{build.name}.sets"))
    return build.helper("reduce_all", same, axes=(1,), keep_dims=False)
