"""Graph IR: a DAG of ops over logical tensors. Terms are those of the oneDNN Graph Compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dims import Dim, Size, Symbol, symbols_of
from ...base.errors import InternalError, UserError
from ...base.html_table import html_table
from ...base.run_checks import without_checks
from .contents import Comparable, Token, attribute_tokens
from .format import Format
from .logical_tensor import LogicalTensor, known
from .op import Array, GraphTensor, Op
from .registry import lookup

_REFERENCE_ROOM = 1 << 12
"""Rows that a loop may collect where its reference runs and nothing limits their number."""

__all__ = [
    "Array",
    "Graph",
    "GraphTensor",
    "Op",
    "attribute_tokens",
    "replace_subgraphs",
    "subgraphs_of",
]


class Graph(Comparable):
    """Ops in topological order. Sources are `input` and `constant` ops, sinks `output` ops, in argument order."""

    def __init__(self, name: str = "graph", attrs: dict[str, Any] | None = None) -> None:
        self.name = name
        self.ops: list[Op] = []
        self.attrs: dict[str, Any] = attrs or {}
        self._names: set[str] = set()
        self._suffix: dict[
            str, int
        ] = {}  # the last number tried per name, so that many ops of one name stay cheap
        self._next = 0

    def make(
        self,
        op_name: str,
        inputs: Sequence[GraphTensor] = (),
        attrs: dict[str, Any] | None = None,
        name: str = "",
    ) -> Op:
        """Append an op. Its outputs' shapes and dtypes are inferred; raise UserError if inputs do not fit."""
        op = lookup(op_name)(op_name, self.unique_name(name or op_name), inputs, dict(attrs or {}))
        op.logical_op_id = self._next
        self._next += 1
        self.ops.append(op)
        return op

    def _repr_html_(self) -> str:
        """The ops in order, for notebooks."""
        rows = []
        for op in self.ops:
            inputs = ", ".join(value.producer_owner.name for value in op.inputs)
            outputs = "; ".join(str(value.details) for value in op.outputs)
            rows.append((op.name, op.op_name, inputs, outputs))
        head = ("name", "op", "inputs", "outputs")
        return html_table(f"graph {self.name}: {len(self.ops)} ops", head, rows)

    def make_input(self, details: LogicalTensor, name: str = "input") -> GraphTensor:
        """Append a graph input."""
        return self.make("input", (), {"details": details}, name).outputs[0]

    def make_constant(
        self, value: Array, name: str = "constant", format: Format | None = None
    ) -> GraphTensor:
        """Append a constant; `value` is the plain array, `format` its layout in memory."""
        # Normalize the plain layout, so that equal constants compare equal.
        layout = None if format is None or format.is_plain else format
        return self.make(
            "constant", (), {"value": np.asarray(value), "format": layout}, name
        ).outputs[0]

    def make_output(self, tensor: GraphTensor, name: str | None = None) -> Op:
        """Append a graph output, which callers know as `name` (default: `output`, `output_1`, ...)."""
        known = {} if name is None else {"temp.result": name}
        return self.make("output", (tensor,), known, name or "output")

    def make_check(self, holds: GraphTensor, message: str) -> Op:
        """Append a condition that every run must fulfil, else it ends in a UserError with this message.

        It is an output like others for all passes; no other output may be appended after it.
        """
        self.make_counts()
        self.attrs["checks"] = (*self.checks, message)
        return self.make_output(holds, self.unique_name("check"))

    def remake(self, op: Op, inputs: Sequence[GraphTensor]) -> Op:
        """The same op on other inputs, by its name: `op` gets another, as its users are to read the new one."""
        name = op.name
        self.rename(op, f"{name}.replaced")
        return self.make(op.op_name, inputs, op.attrs, name)

    @property
    def checks(self) -> tuple[str, ...]:
        """The messages of the conditions, which are the last outputs."""
        return tuple(self.attrs.get("checks", ()))

    def make_counts(self) -> None:
        """Append an output for each size that is counted and has none: callers of the native code need them.

        They follow the results, which must all have been appended, and are hidden like checks.
        """
        for op in self.counted:
            if not any(user.is_output for _, user in op.outputs[0].uses):
                self.attrs["counts"] = self.count_outputs + 1
                self.make_output(op.outputs[0], self.unique_name("count"))

    @property
    def counted(self) -> list[Op]:
        """The `count` ops, which make numbers sizes."""
        return [op for op in self.ops if op.op_name == "count"]

    @property
    def rooms(self) -> tuple[Symbol, ...]:
        """The sizes that callers choose as the room for counts that nothing limits, by name."""
        most = symbols_of(op.attr("most")[0] for op in self.counted if op.attr("unlimited"))
        given = symbols_of(size for op in self.inputs for size in op.outputs[0].details.plain_dims)
        return tuple(sorted(set(most) - set(given)))

    @property
    def count_outputs(self) -> int:
        """Return the number of outputs before the checks that are counted sizes."""
        return int(self.attrs.get("counts", 0))

    @property
    def results(self) -> list[Op]:
        """The outputs that callers see."""
        outputs = self.outputs
        return outputs[: len(outputs) - self.count_outputs - len(self.checks)]

    def unique_name(self, wanted: str) -> str:
        """`wanted`, or with a number appended if an op of that name exists; the name is then taken."""
        name = wanted
        while name in self._names:
            self._suffix[wanted] = self._suffix.get(wanted, 0) + 1
            name = f"{wanted}_{self._suffix[wanted]}"
        self._names.add(name)
        return name

    def rename(self, op: Op, wanted: str) -> None:
        """Give an op another name, with a number appended if there is an op of that name."""
        self._names.discard(op.name)
        op.name = self.unique_name(wanted)

    @property
    def inputs(self) -> list[Op]:
        """The `input` ops, in argument order."""
        return [op for op in self.ops if op.is_input]

    @property
    def outputs(self) -> list[Op]:
        """The `output` ops, in result order."""
        return [op for op in self.ops if op.is_output]

    def copy(self) -> Graph:
        """A graph of the same ops, names, formats, schedules and attributes; attributes and subgraphs are shared."""
        return self.at_sizes({})

    def at_sizes(self, sizes: Mapping[str, Size]) -> Graph:
        """A copy with numbers, or other sizes, for the dynamic sizes that have one, by name: formats and schedules are
        the same."""
        twin = Graph(self.name, dict(self.attrs))
        mapping: dict[GraphTensor, GraphTensor] = {}
        for op in self.ops:
            attrs = {key: known(value, sizes) for key, value in op.attrs.items()}
            new = twin.make(op.op_name, [mapping[x] for x in op.inputs], attrs, op.name)
            new.schedule = op.schedule
            for old, made in zip(op.outputs, new.outputs, strict=True):
                made.details = known(old.details, sizes)
                mapping[old] = made
        return twin

    def remove(self, doomed: Iterable[Op]) -> None:
        """Delete unused ops; raise InternalError if another op still uses one."""
        gone = {id(op): op for op in doomed}
        for op in gone.values():
            user = next(
                (user for y in op.outputs for _, user in y.uses if id(user) not in gone), None
            )
            if user is not None:
                raise InternalError(f"op '{op.name}' cannot be removed: '{user.name}' uses it")
            self._names.discard(op.name)
        for op in gone.values():
            op.unlink()
            if op.is_constant:  # it and its tensor refer to each other, and would keep the array
                op.attrs["value"] = None
        self.ops = [op for op in self.ops if id(op) not in gone]

    def sort(self) -> None:
        """Restore topological order and renumber ids densely.

        Inputs come first and outputs last, each in their present order. The others keep their positions; an op
        needed earlier moves to just before its first user, so that values live no longer than needed. InternalError
        on a cycle.
        """
        rest = [op for op in self.ops if not (op.is_input or op.is_output)]
        dependencies = self.dependencies()
        open_: set[int] = set()  # ops whose inputs are being placed; meeting one again is a cycle
        done: set[int] = set()
        ordered: list[Op] = []
        for root in (*self.inputs, *rest, *self.outputs):
            stack = [root]
            while stack:
                op = stack[-1]
                needed = [one for one in dependencies(op) if id(one) not in done]
                if id(op) in done or not needed:
                    stack.pop()
                    if id(op) not in done:
                        done.add(id(op))
                        ordered.append(op)
                    continue
                if id(op) in open_:
                    raise InternalError(
                        f"graph '{self.name}' must be acyclic, but op '{op.name}' depends on itself"
                    )
                open_.add(id(op))
                stack.extend(reversed(needed))
        self.ops = ordered
        self.renumber()

    def dependencies(self) -> Callable[[Op], list[Op]]:
        """A function: the ops that must run before an op, as it reads their results or has a size that they count."""
        counts = {op.attr("size")[0]: op for op in self.counted}

        def before(op: Op) -> list[Op]:
            found = [x.producer_owner for x in op.inputs]
            if counts:
                found += [counts[one] for one in sizes_in(op) if counts.get(one, op) is not op]
            return found

        return before

    def renumber(self) -> None:
        """Make `logical_op_id` dense in the present order."""
        for number, op in enumerate(self.ops):
            op.logical_op_id = number
        self._next = len(self.ops)

    def evaluate(self, inputs: Sequence[Array]) -> list[Array]:
        """Run every op's NumPy reference: results of the `output` ops, in order. Raise UserError if a check fails."""
        results = [value for op, value in self.walk_reference(inputs) if op.is_output]
        values = without_checks(self.name, results, self.checks)
        return values[: len(values) - self.count_outputs]

    def walk_reference(self, inputs: Sequence[Array]) -> Iterator[tuple[Op, Array]]:
        """Run the references op by op, yielding (op, value of its last output; of its input for an output op).

        An array is dropped after its last use, so memory stays at the live set. Raise UserError if `inputs` do not
        match the graph's.
        """
        fed = iter(self._checked(inputs))
        values: dict[int, Array] = {}
        # Rows that loops collect have their room before they are counted.
        used = symbols_of(size for op in self.ops if op.op_name != "count" for size in sizes_in(op))
        sizes = {one.name: _REFERENCE_ROOM for one in self.rooms if one in used}
        left = {id(y): len(y.uses) for op in self.ops for y in op.outputs}
        for op in self.ops:
            arrays = [values[id(x)] for x in op.inputs]
            for tensor in op.inputs:
                left[id(tensor)] -= 1
                if not left[id(tensor)]:
                    values.pop(id(tensor), None)
            if op.is_output:
                results = arrays
            else:
                at = op_at_sizes(op, arrays, sizes)
                results = [next(fed)] if op.is_input else at.reference(arrays)
                if op.op_name == "count":
                    sizes[str(op.attr("size")[0])] = int(results[0][0])
                pairs = zip(op.outputs, results, strict=True)
                values.update((id(y), result) for y, result in pairs if left[id(y)])
            yield op, results[-1]

    def _checked(self, inputs: Sequence[Array]) -> list[Array]:
        arrays = [np.asarray(array) for array in inputs]
        wanted = [op.outputs[0].details for op in self.inputs]
        if len(arrays) != len(wanted):
            raise UserError(
                f"graph '{self.name}': one array must be given for each of its {len(wanted)} inputs, got {len(arrays)}"
            )
        for op, details, array in zip(self.inputs, wanted, arrays, strict=True):
            if array.shape != details.plain_dims or array.dtype != details.dtype.numpy:
                got = f"{array.dtype}{list(array.shape)}"
                raise UserError(
                    f"graph '{self.name}': input '{op.name}' must be {details}, got an array {got}"
                )
        return arrays

    def get_gflop(self) -> float:
        """Work of one run in 1e9 operations."""
        return sum(op.get_gflop() for op in self.ops)

    def content_tokens(self) -> Iterator[Token]:
        """Bytes that identify what the graph computes: ops in their order, wiring, shapes, formats and attributes."""
        position = {id(op): i for i, op in enumerate(self.ops)}
        yield f"graph {len(self.ops)}".encode()
        yield from attribute_tokens(self.attrs)
        for op in self.ops:
            wires = ",".join(f"{position[id(x.producer_owner)]}:{x.index}" for x in op.inputs)
            yield f"{op.op_name}({wires}) {op.schedule or ''}".encode()
            yield from attribute_tokens([y.details for y in op.outputs])
            yield from attribute_tokens(op.attrs)


def sizes_in(op: Op) -> Iterator[Dim]:
    """The dynamic sizes in the types of an op's results and in its attributes, those of its subgraphs too."""
    held = [one for y in op.outputs for one in y.details.plain_dims]
    held += [one for value in op.attrs.values() if isinstance(value, tuple) for one in value]
    for symbol in symbols_of(held):
        yield Dim({(symbol,): 1})
    for graph in subgraphs_of(op):
        for inner in graph.ops:
            yield from sizes_in(inner)


def op_at_sizes(op: Op, arrays: Sequence[Array], sizes: Mapping[str, int]) -> Op:
    """The op with numbers for dynamic sizes, alone in a graph; itself where there are none."""
    if not sizes:
        return op
    graph = Graph("op")
    given = [
        LogicalTensor(x.details.dtype, a.shape) for x, a in zip(op.inputs, arrays, strict=True)
    ]
    inputs = [graph.make_input(details) for details in given]
    attrs = {key: known(value, sizes) for key, value in op.attrs.items()}
    return graph.make(op.op_name, inputs, attrs, op.name)


def subgraphs_of(op: Op) -> list[Graph]:
    """Every graph among an op's attributes, those in lists too, in order."""
    found: list[Graph] = []
    pending = list(op.attrs.values())[::-1]
    while pending:
        value = pending.pop()
        if isinstance(value, Graph):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            pending.extend(reversed(value))
    return found


def replace_subgraphs(op: Op, change: Callable[[Graph], Graph]) -> None:
    """Give an op what `change` makes of each of its subgraphs."""
    for key, value in list(op.attrs.items()):
        if isinstance(value, Graph):
            op.set_attr(key, change(value))
        elif isinstance(value, tuple) and any(isinstance(inner, Graph) for inner in value):
            op.set_attr(key, [change(inner) for inner in value])


def all_ops(graph: Graph) -> Iterator[Op]:
    """The ops of a graph, each followed by those of the graphs inside it."""
    pending = [iter(graph.ops)]
    while pending:
        op = next(pending[-1], None)
        if op is None:
            pending.pop()
        else:
            yield op
            pending.extend(iter(inner.ops) for inner in reversed(subgraphs_of(op)))
