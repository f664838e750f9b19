"""The context of a node's importer: the values known so far, and one node of the dump."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import UnsupportedError
from ...base.records import dataclass
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ..correspondence.row import Row
from ..correspondence.scoped import ScopedReader, ValueScope
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN, understood
from ..op_builder import Value
from .document import Dump, DumpGraph, GraphName, Node, Reference
from .enumerations import to_dtype
from .signatures import Signature, signatures

Handler = Callable[["NodeContext"], "Value | list[Value]"]
"""Imports one kind of node: the values of its outputs, in order (or the only one)."""

_NO_SIGNATURE = Signature((), {}, ())
_MAX_STEPS = 200_000
_LAST_DECIMAL = 5e-7


@dataclass
class Session:
    """The state shared by all graphs of one import. `constants` are given by (graph name, node name)."""

    dump: Dump
    constants: Mapping[tuple[str, str], Array]
    steps: int = 0
    """Nodes imported so far, those of unrolled loops and repeated subgraphs counted each time."""
    imported: dict[Any, Any] = field(default_factory=dict)
    """Graphs that branches and loops have run (`subgraphs.Imported`), by name and types of arguments."""

    def step(self, node: Node, count: int = 1) -> None:
        """Count a node, or those of a subgraph. Raise UnsupportedError if calls and loops make too many of them."""
        self.steps += count
        if self.steps > _MAX_STEPS:
            raise UnsupportedError(
                f"{self.dump.label}: more than {_MAX_STEPS} nodes after inlining calls and unrolling loops "
                f"are not supported; the last one was {node.type} '{node.name}'",
                "call graphs and run loops fewer times",
            )


@dataclass
class Scope(ValueScope[Reference]):
    """Values of one graph of the dump by reference, and the graph they are built into.

    `guessed` are values whose dtype the text did not give: int32 or float32 unless a consumer determines it.
    """

    session: Session
    source: DumpGraph
    graph: Graph
    prefix: str = ""
    depth: int = 0
    values: dict[Reference, Value] = field(default_factory=dict)
    guessed: set[Reference] = field(default_factory=set)
    constants: dict[Reference, GraphTensor] = field(default_factory=dict)

    def constant_name(self, key: Reference) -> str:
        """The node's name, that of its graph in front."""
        return self.prefix + key.node


class NodeContext(ScopedReader[Reference, str]):
    """One node: its inputs by name, its attributes with their types checked, and what to make of them."""

    list_axes = 2  # packed scalars are a column, and pads may be pairs

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(scope.graph, node.type, scope.prefix + node.name)
        self.node = node
        self.scope = scope
        self.signature = signatures().get(node.type, _NO_SIGNATURE)
        self.operands = self._named_operands()

    def _named_operands(self) -> dict[str, Reference]:
        """Inputs by name; those without one take the names of the signature in order."""
        names = [name.rstrip("?*") for name in self.signature.inputs]
        dynamic = next((name[:-1] for name in self.signature.inputs if name.endswith("*")), None)
        first = names.index(dynamic) if dynamic in names else len(names)
        found: dict[str, Reference] = {}
        for index, (key, reference) in enumerate(self.node.inputs):
            if not key:
                after = len(self.node.inputs) - (len(names) - first - 1)
                if index < first:
                    key = names[index]
                elif dynamic is None or index >= after:
                    slot = first + 1 + index - after
                    key = names[slot] if slot < len(names) else f"_input_{index}"
                else:
                    key = f"{dynamic}_{index - first}"
            if key in found:
                raise self.rule("inputs must have different names", f"'{key}' twice")
            found[key] = reference
        return found

    # Inputs.

    def has(self, name: str) -> bool:
        """Return whether an optional input is given."""
        return name in self.operands

    def key_of(self, name: str) -> Reference:
        """The reference of input `name`. Raise UserError if it is not given."""
        if name not in self.operands:
            raise self.rule(f"input '{name}' must be given", f"only {sorted(self.operands)}")
        return self.operands[name]

    def dynamic(self, name: str) -> dict[int, Reference]:
        """The inputs name_0, name_1, ... (or name0, name1) by number, in order; numbers may be missing."""
        pattern = re.compile(re.escape(name) + r"_?(\d{1,6})\Z", re.ASCII)
        found = {int(m[1]): ref for key, ref in self.operands.items() if (m := pattern.match(key))}
        return dict(sorted(found.items()))

    def known(self, name: str) -> Array | None:
        """Input `name` if it is given and known; other forms of the same op have an attribute instead."""
        if name not in self.operands and name in self.node.attrs:
            return np.array(self.attr_ints(name), np.int64)
        return super().known(name)

    def tensors(self, name: str) -> list[GraphTensor]:
        """All inputs of a dynamic one, at least one."""
        found = [self.scope.tensor(reference) for reference in self.dynamic(name).values()]
        if not found:
            raise self.rule(f"inputs '{name}_0', ... must be given", "none")
        return found

    def tensor_as(self, name: str, dtype: DType) -> GraphTensor:
        """Input `name`, converted to `dtype` if the file did not give its dtype."""
        reference = self.key_of(name)
        x = self.scope.tensor(reference)
        return self.retyped(x, dtype) if reference in self.scope.guessed else x

    def retyped(self, x: GraphTensor, dtype: DType) -> GraphTensor:
        """Convert a constant of guessed dtype; raise UserError if a fraction would become an integer."""
        if x.details.dtype == dtype:
            return x
        if x.details.dtype.is_float and not dtype.is_float:
            raise self.rule("operands must have one dtype", f"{x.details.dtype} and {dtype}")
        op = x.producer_owner
        if not op.is_constant:
            return self.converted(x, dtype)
        return self.constant(op.attr("value"), dtype)

    def scalar(self, name: str, dtype: DType | None = None) -> GraphTensor:
        """Input `name` of one element as a tensor of rank 0."""
        x = self.tensor(name) if dtype is None else self.tensor_as(name, dtype)
        if x.details.elements != 1:
            raise self.rule(f"{name} must have one element", str(x.details))
        return self.reshaped(x, ())

    # Attributes.

    def attr(self, key: str) -> Any:
        """An attribute or its default; raise UserError if it has none."""
        if key in self.node.attrs:
            return self.node.attrs[key]
        if key in self.signature.defaults:
            return self.signature.defaults[key]
        raise self.rule(f"attribute '{key}' must be given", f"only {sorted(self.node.attrs)}")

    def attr_graph(self, key: str) -> DumpGraph:
        """The graph an attribute names."""
        value = self.attr(key)
        if not isinstance(value, GraphName):
            raise self.rule(f"attribute '{key}' must name a graph", repr(value))
        return self.scope.session.dump.graph(value.name)

    # The interface used by rows.

    def locate(self, formal: Formal) -> str:
        """The operand's name."""
        return formal.name

    def read_variadic(self, formal: Formal) -> list[GraphTensor]:
        """All inputs of a dynamic one; literals take over the dtype of the others, and that they are scalars."""
        tensors = self.tensors(formal.name)
        loose = [
            reference in self.scope.guessed for reference in self.dynamic(formal.name).values()
        ]
        dtype = tensors[loose.index(False) if not all(loose) else 0].details.dtype
        is_scalar = not min(x.details.rank for x in tensors)
        found = []
        for x, is_loose in zip(tensors, loose, strict=True):
            y = self.retyped(x, dtype) if is_loose else x
            is_one = is_loose and is_scalar and x.details.elements == 1
            found.append(self.reshaped(y, ()) if is_one else y)
        return found

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An attribute or its default in GE's IR."""
        is_known = name in self.node.attrs or name in self.signature.defaults
        if not is_known and default is not MUST_BE_GIVEN:
            return default
        value = self.attr(name)
        if kind == "dtype":
            word = getattr(value, "text", value)
            if (dtype := to_dtype(word)) is None:
                raise self.unsupported(f"{name} {word!r}")
            return dtype
        try:
            found = understood(value, kind)
        except ValueError as error:
            raise self.rule(f"attribute '{name}' must be {error}", repr(value)) from error
        return self._printed(name, found) if kind == "float" else found

    def _printed(self, name: str, value: float) -> float:
        """A float of 6 decimals; the default where that is printed so, and for an epsilon printed as 0."""
        default = self.signature.defaults.get(name, 1e-7)
        is_none = not value and name in ("eps", "epsilon")
        return float(default) if is_none or abs(value - default) < _LAST_DECIMAL else value

    def read_operands(self, row: Row, formals: Sequence[Formal]) -> list[GraphTensor]:
        """Two operands of one type; an unknown dtype or rank is taken from the other one."""
        alike = formals[row.conditions :]
        is_pair = row.common and len(alike) == 2
        if not is_pair or any(formal.variadic or formal.optional for formal in alike):
            return super().read_operands(row, formals)
        chosen = super().read_operands(row, formals[: row.conditions])
        return [*chosen, *self.pair(*(formal.name for formal in alike))]

    # Two operands.

    def pair(self, first: str = "x1", second: str = "x2") -> tuple[GraphTensor, GraphTensor]:
        """Two operands; an unknown dtype or rank is taken from the other one."""
        return self.matched(self.key_of(first), self.key_of(second))

    def matched(self, first: Reference, second: Reference) -> tuple[GraphTensor, GraphTensor]:
        """Match two references like `pair`."""
        a, b = self.scope.tensor(first), self.scope.tensor(second)
        guessed = (first in self.scope.guessed, second in self.scope.guessed)
        if guessed == (True, False):
            a = self._like(a, b)
        elif guessed == (False, True):
            b = self._like(b, a)
        elif guessed == (True, True) and a.details.dtype != b.details.dtype:
            wide = a.details.dtype if a.details.dtype.is_float else b.details.dtype
            a, b = self.retyped(a, wide), self.retyped(b, wide)
        return a, b

    def _like(self, x: GraphTensor, other: GraphTensor) -> GraphTensor:
        x = self.retyped(x, other.details.dtype)
        return self.reshaped(x, ()) if not other.details.rank and x.details.elements == 1 else x
