"""Nodes whose operands are tensors of the graph, or arrays known while the model is read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from ...base.dims import Dim
from ...base.dtypes import S64, from_numpy
from ...base.errors import GraphcError, InternalError, UnsupportedError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.rewriting.run_sizes import CountSize, Readings, run_list
from ..folding import fold, is_foldable
from ..op_builder import Value
from ..refusals import FIXED
from .reading import NodeReader
from .spelling import Formal

_SIZES = ("shape", "repeats", "k")
"""Attributes of ours that say how large a result is."""

K = TypeVar("K", bound=Hashable)
"""A format's reference to a value."""

I = TypeVar("I")  # noqa: E741 - an index, or a name
"""A node's reference to an operand."""


class ValueScope(Generic[K]):
    """Values by key, and the graph they are built into."""

    graph: Graph
    values: dict[K, Value]
    constants: dict[K, GraphTensor]

    def constant_name(self, key: K) -> str:
        """Return the name of the constant for an array."""
        return str(key)

    def as_tensor(self, value: Value) -> GraphTensor:
        """A value as a tensor of the graph."""
        if isinstance(value, GraphTensor):
            return value
        return (
            dynamic_sizes(self.graph, value)
            if value.dtype == object
            else self.graph.make_constant(value)
        )

    def tensor(self, key: K) -> GraphTensor:
        """A value as a tensor of the graph; an array becomes one constant, however often it is read."""
        value = self.values[key]
        if isinstance(value, GraphTensor):
            return value
        if key not in self.constants:
            make = dynamic_sizes if value.dtype == object else Graph.make_constant
            self.constants[key] = make(self.graph, value, self.constant_name(key))
        return self.constants[key]


def details_of(value: Value) -> LogicalTensor:
    """Element type and shape."""
    if isinstance(value, GraphTensor):
        return value.details
    dtype = S64 if value.dtype == object else from_numpy(value.dtype)
    return LogicalTensor(dtype, value.shape)


def dynamic_sizes(graph: Graph, value: Array, name: str = "sizes") -> GraphTensor:
    """An array of expressions as a tensor, which holds numbers when the model runs."""
    flat = graph.make("dynamic_sizes", [], {"values": tuple(value.reshape(-1))}, name).outputs[0]
    if value.ndim == 1:
        return flat
    return graph.make("reshape", [flat], {"shape": value.shape}, f"{name}.reshape").outputs[0]


class NotKnownError(UnsupportedError):
    """A value that decides what is compiled depends on the model's inputs: the one of `key`."""

    key: Hashable = None


class ScopedReader(NodeReader, Generic[K, I]):
    """A node that finds its operands in a scope. Formats implement `key_of`, `has` and `locate`."""

    scope: Any
    list_axes = 1
    """The most axes of what counts as a list."""

    may_count = False
    """True if a run may count sizes without a limit, which branches and loops cannot."""

    @property
    def count_size(self) -> CountSize | None:
        """Return the function that makes a number a size without a limit; None in branches and loops, which cannot
        count so."""
        return (lambda number, name: self.counted(number, None, name)) if self.may_count else None

    def key_of(self, operand: I) -> K:
        """The key of an operand's value. Raise UserError if it is not given."""
        raise NotImplementedError

    def has(self, operand: I) -> bool:
        """Return whether an optional operand is given."""
        raise NotImplementedError

    def locate(self, formal: Formal) -> I:
        """The operand of a row."""
        raise NotImplementedError

    def value(self, operand: I) -> Value:
        """An operand: an array if known, else a tensor."""
        value: Value = self.scope.values[self.key_of(operand)]
        return value

    def tensor(self, operand: I) -> GraphTensor:
        """An operand as a tensor of the graph."""
        tensor: GraphTensor = self.scope.tensor(self.key_of(operand))
        return tensor

    def known(self, operand: I) -> Array | None:
        """An operand if it is given and known."""
        value = self.value(operand) if self.has(operand) else None
        return None if isinstance(value, GraphTensor) else value

    def details(self, operand: I) -> LogicalTensor:
        """Element type and shape of an operand."""
        return details_of(self.value(operand))

    def array(self, operand: I, what: str = "", sizes: bool | Readings = False) -> Array:
        """An operand, which must be known. Raise UnsupportedError if it depends on the model's inputs, unless its
        elements are `sizes`, which a run may count, perhaps each with a reading."""
        value = self.known(operand)
        if value is None and sizes and self.has(operand):
            value = run_list(self.graph, self.tensor(operand), self.count_size, sizes)
        if value is None:
            key = self.key_of(operand)
            what = f"{what or operand} ('{self.scope.constant_name(key)}')"
            text = self.unsupported(f"{what} that depends on the model's inputs", FIXED)
            error = NotKnownError(str(text))
            error.key = key
            raise error
        return value

    def ints(self, operand: I, what: str = "", sizes: bool | Readings = False) -> tuple[Any, ...]:
        """Known integers: a shape, axes, indices; a scalar counts as one. Dynamic `sizes` are expressions."""
        value = self.array(operand, what, sizes)
        if value.dtype.kind not in "iuO" or value.ndim > self.list_axes:
            given = f"{value.dtype.name}{list(value.shape)}"
            raise self.rule(f"{what or operand} must be a list of integers", given)
        return tuple(v if isinstance(v, Dim) else int(v) for v in value.reshape(-1))

    def integer(self, operand: I, what: str = "") -> int:
        """An operand as one known integer."""
        values = self.ints(operand, what)
        if len(values) != 1:
            raise self.rule(f"{what or operand} must be one integer", str(list(values)))
        number: int = values[0]
        return number

    # What rows ask for.

    def read_operand(self, formal: Formal) -> GraphTensor:
        """The operand as a tensor."""
        return self.tensor(self.locate(formal))

    def is_given(self, formal: Formal) -> bool:
        """Return whether there is such an operand."""
        return self.has(self.locate(formal))

    def read_known(self, formal: Formal) -> Array:
        """The operand's value."""
        locate, is_size = self.locate(formal), formal.holds in _SIZES
        if self.type == "Reshape" and is_size:  # an input may hold numbers that do not fit
            given = self.value(locate)
            is_size = not isinstance(given, GraphTensor) or bool(given.producer_owner.inputs)
        value = self.array(locate, formal.name, is_size)
        return value.reshape(-1) if 1 < value.ndim <= self.list_axes else value


def results_of(
    type_name: str,
    label: str,
    operands: Iterable[Value] | None,
    run: Callable[[Graph | None], list[Value]],
    file: str = "",
) -> list[Value]:
    """Return the results of a node: arrays if all its `operands` are small known arrays, else tensors of the graph.

    `run` imports the node into the graph given, or (None) into its own. Operands of None are not looked at. Errors
    that name neither the node, `type_name` and `label`, nor the `file` get the node in front.
    """
    try:
        given = None if operands is None else list(operands)
        results = fold(run) if given is not None and is_foldable(given) else None
        return run(None) if results is None else results
    except GraphcError as error:
        named = f"'{label}" in str(error) or (file and file in str(error))
        if named or isinstance(error, InternalError):
            raise
        error.said(f"{type_name} '{label}': {error}")
        raise
