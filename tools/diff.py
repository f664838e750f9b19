"""Tells whether two graphs are the same, and where they differ: ops are matched starting from the outputs."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ..base.errors import GraphcError
from ..base.records import dataclass
from ..graph_ir.ir.attributes import INTERNAL
from ..graph_ir.ir.contents import Token, attribute_tokens
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ..graph_ir.ops.elementwise_binary import COMMUTATIVE
from ..graph_ir.text.printer import print_op
from .normal_form import normal_form

_ROUNDINGS = 8
"""Number of roundings by which constants may differ, relative to the largest of their elements."""


@dataclass(frozen=True)
class Part:
    """One difference between the graphs: both sides as lines, and the reason."""

    first: str
    second: str
    reason: str


@dataclass(frozen=True)
class GraphDifference:
    """The ops of either graph without a counterpart, by name, and the differences in the order of the first graph.

    `renamed` inputs are not a difference: their positions and types agree.
    """

    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    pairs: tuple[tuple[Op, Op], ...] = field(default=(), compare=False)
    """Matched pairs of inputs, then of outputs."""

    @property
    def same(self) -> bool:
        """Return whether nothing differs."""
        return not (self.only_first or self.only_second or self.parts)


def diff(first: Graph, second: Graph) -> GraphDifference:
    """Compare inputs and outputs by name, else by position; ops by kind, attributes and operands; constants by value.

    Names of ops and constants, the order of independent ops, and `temp.` attributes do not matter. Graphs whose normal
    forms are equal, constants up to rounding, are the same: formats differ in how they write one computation.
    """
    found = _Comparison(first, second).run()
    if found.same:
        return found
    try:
        forms = normal_form(first), normal_form(second)
    except GraphcError:  # it has no meaning to simplify, such as one whose sizes are dynamic
        return found
    if not _Comparison(*forms, rounded=True).run().same:
        return found
    return replace(found, only_first=(), only_second=(), parts=())


class _Comparison:
    """`named`: inputs and outputs have names, which those of branches and loops have not."""

    def __init__(
        self, first: Graph, second: Graph, rounded: bool = False, named: bool = True
    ) -> None:
        self.first, self.second, self.rounded = first, second, rounded
        self.inputs = _paired(first.inputs, second.inputs, typed=True, named=named)
        self.outputs = _paired(first.outputs, second.outputs, typed=False, named=named)
        same = {b: a for a, b in self.inputs}
        keys = [{op: str(id(same.get(op, op))) for op in g.inputs} for g in (first, second)]
        self.digests = {**_digests(first, keys[0]), **_digests(second, keys[1])}
        self.differing: dict[
            Op, tuple[Op, str]
        ] = {}  # an op of the first graph, that of the second, why

    def run(self) -> GraphDifference:
        """The whole comparison."""
        self._walk([(a.inputs[0], b.inputs[0]) for a, b in self.outputs])
        self._compare_slots()
        order = {op: number for number, op in enumerate(self.first.ops)}
        found = sorted(self.differing.items(), key=lambda item: order[item[0]])
        pairs = (*self.inputs, *self.outputs)
        return GraphDifference(
            tuple(self._alone(self.first, {a for a, _ in pairs}, {a for a, _ in found})),
            tuple(self._alone(self.second, {b for _, b in pairs}, {b for _, (b, _) in found})),
            tuple(Part(_line(a), _line(b), reason) for a, (b, reason) in found),
            tuple((a.name, b.name) for a, b in self.inputs if a.name != b.name),
            pairs,
        )

    def _walk(self, pending: list[tuple[GraphTensor, GraphTensor]]) -> None:
        """Record ops that differ although their operands were matched, and ops that cannot be matched at all."""
        seen = set()
        while pending:
            a, b = pending.pop()
            if (a, b) in seen or self.digests[a] == self.digests[b]:
                continue
            seen.add((a, b))
            mine, theirs = a.producer_owner, b.producer_owner
            reason = self._reason(mine, theirs)
            if not reason and a.index != b.index:
                reason = f"output {a.index} and output {b.index} are read"
            if reason:
                self.differing.setdefault(mine, (theirs, reason))
            else:
                pending += zip(mine.inputs, self._ordered(mine, theirs), strict=True)

    def _ordered(self, mine: Op, theirs: Op) -> list[GraphTensor]:
        """The operands of `theirs`, exchanged where that is how they match those of `mine`."""
        if theirs.op_name not in COMMUTATIVE or len(theirs.inputs) != 2:
            return theirs.inputs
        (a, b), (c, d) = mine.inputs, theirs.inputs
        keys = [self.digests[x] for x in (a, b, c, d)]
        crossed = keys[0] == keys[3] or keys[1] == keys[2]
        if not crossed and keys[0] != keys[2] and keys[1] != keys[3]:
            kinds = [(x.producer_owner.op_name, x.details) for x in (a, b, c, d)]
            crossed = kinds[0] == kinds[3] and kinds[1] == kinds[2] and kinds[0] != kinds[2]
        return [d, c] if crossed else [c, d]

    def _reason(self, a: Op, b: Op) -> str:
        """The difference between two ops themselves, "" if there is none."""
        if a.op_name != b.op_name:
            return f"{a.op_name} and {b.op_name}"
        if a.is_input:
            return _types(a, b) or "another input"
        if a.is_constant:
            if reason := _types(a, b):
                return reason
            mine, theirs = a.attr("value"), b.attr("value")
            return "" if self.rounded and _is_near(mine, theirs) else _values(mine, theirs)
        if len(a.inputs) != len(b.inputs):
            return f"{len(a.inputs)} and {len(b.inputs)} operands"
        for key in (*_attributes(a), *_attributes(b)):
            mine, theirs = a.attr(key), b.attr(key)
            if self.rounded and isinstance(mine, float) and _is_near(mine, theirs):
                continue
            if self._same_graphs(mine, theirs):
                continue
            if list(_tokens({key: mine})) != list(_tokens({key: theirs})):
                return f"{key} is {_shown(mine)} and {_shown(theirs)}"
        return ""

    def _same_graphs(self, mine: Any, theirs: Any) -> bool:
        """Return whether both are graphs, or lists of them, that compute the same."""
        if isinstance(mine, Graph) and isinstance(theirs, Graph):
            return _Comparison(mine, theirs, self.rounded, named=False).run().same
        if not (isinstance(mine, tuple) and isinstance(theirs, tuple) and len(mine) == len(theirs)):
            return False
        return bool(mine) and all(map(self._same_graphs, mine, theirs))

    def _compare_slots(self) -> None:
        """Types of inputs and outputs, and the order of the arguments."""
        for a, b in self.inputs:
            if a not in self.differing and (reason := _types(a, b)):
                self.differing[a] = (b, reason)
        for ops, twins, pairs in (
            (self.first.inputs, self.second.inputs, self.inputs),
            (self.first.outputs, self.second.outputs, self.outputs),
        ):
            for a, b in pairs:
                if len(ops) == len(twins) and ops.index(a) != twins.index(b):
                    reason = f"number {ops.index(a)} and number {twins.index(b)}"
                    self.differing.setdefault(a, (b, reason))

    def _alone(self, graph: Graph, paired: set[Op], differing: set[Op]) -> Iterator[str]:
        """Inputs, outputs and constants without a counterpart."""
        other = self.second if graph is self.first else self.first
        known = {self.digests[y] for op in other.ops for y in op.outputs}
        for op in graph.ops:
            if (op.is_input or op.is_output) and op not in paired:
                details = (op.outputs or op.inputs)[0].details
                yield f"{op.op_name} '{_name(op)}' {details}"
            alone = op.is_constant and self.digests[op.outputs[0]] not in known
            if alone and op not in differing and not self.rounded:
                yield f"constant '{op.name}' {op.outputs[0].details}"


def _paired(
    first: Sequence[Op], second: Sequence[Op], typed: bool, named: bool
) -> list[tuple[Op, Op]]:
    """Match ops by name, then the others in order; `typed`: only if position and type agree."""
    by_name: dict[str, list[Op]] = {}
    for op in reversed(second if named else ()):
        by_name.setdefault(_name(op), []).append(op)
    pairs = [(op, by_name[_name(op)].pop()) for op in first if by_name.get(_name(op))]
    taken = {op for pair in pairs for op in pair}
    mine, theirs = ([op for op in ops if op not in taken] for ops in (first, second))
    for a, b in zip(mine, theirs, strict=False):
        if not typed or (first.index(a) == second.index(b) and not _types(a, b)):
            pairs.append((a, b))
    return pairs


def _name(op: Op) -> str:
    return op.attr("temp.result") if op.is_output else op.name


def _digests(graph: Graph, inputs: dict[Op, str]) -> dict[GraphTensor, bytes]:
    """A key for the computation of each tensor, down to the inputs, which have keys."""
    found: dict[GraphTensor, bytes] = {}
    for op in graph.ops:
        digest = hashlib.sha256(op.op_name.encode())
        if op.is_input:
            digest.update(inputs[op].encode())
        for token in _tokens(_attributes(op)):
            digest.update(len(token).to_bytes(8, "little") + token)
        operands = [found[tensor] for tensor in op.inputs]
        for operand in sorted(operands) if op.op_name in COMMUTATIVE else operands:
            digest.update(operand)
        for index, tensor in enumerate(op.outputs):
            details = f"{index} {tensor.details.dtype}{tensor.details.plain_dims}"
            found[tensor] = digest.digest() + hashlib.sha256(details.encode()).digest()
    return found


def _tokens(attributes: dict[str, Any]) -> Iterator[Token]:
    """Bytes that identify attributes; graphs by what they compute of their inputs, whatever these are called."""
    plain, graphs = {}, []
    for key, value in attributes.items():
        several = value if isinstance(value, tuple) else (value,)
        if any(isinstance(item, Graph) for item in several):
            graphs += [(key, item) for item in several]
        else:
            plain[key] = value
    yield from attribute_tokens(plain)
    for key, graph in graphs:
        yield key.encode()
        found = _digests(graph, {op: str(number) for number, op in enumerate(graph.inputs)})
        yield from (found[op.inputs[0]] for op in graph.outputs)


def _attributes(op: Op) -> dict[str, Any]:
    """Return the attributes that differ from their defaults, spelled as the schema stores them."""
    return {key: value for key, value in op.attrs.items() if not key.startswith(INTERNAL)}


def _types(a: Op, b: Op) -> str:
    mine, theirs = ((op.outputs or op.inputs)[0].details for op in (a, b))
    return "" if mine == theirs else f"{mine} and {theirs}"


def _values(mine: Array, theirs: Array) -> str:
    """The number of differing elements, and the largest difference."""
    a, b = np.asarray(mine), np.asarray(theirs)
    same = (a == b) | ((a != a) & (b != b))
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    most = np.max(apart, initial=0.0, where=np.isfinite(apart))
    return f"{np.count_nonzero(~same)} of {a.size} elements, by at most {most:.3g}"


def _is_near(mine: Array | float, theirs: Array | float) -> bool:
    """Return whether constants are the same except for a few roundings of what they were computed from; numbers are
    kept in f32 by some formats."""
    kept = np.float32 if isinstance(mine, float) else None
    a, b = np.asarray(mine, kept), np.asarray(theirs, kept)
    if a.dtype.kind != "f":
        return bool(np.array_equal(a, b))
    scale = np.abs(a).max(initial=0.0, where=np.isfinite(a))
    same = (a == b) | ((a != a) & (b != b))
    with np.errstate(all="ignore"):
        return bool((same | (np.abs(a - b) <= _ROUNDINGS * np.finfo(a.dtype).eps * scale)).all())


def _shown(value: Any) -> str:
    if isinstance(value, Graph):
        counted = Counter(op.op_name for op in value.ops if op.kind not in ("source", "sink"))
        return f"a graph of {', '.join(f'{name} ({n}x)' for name, n in sorted(counted.items()))}"
    return "not given" if value is None else str(value)


def _line(op: Op) -> str:
    """The op as the text of a graph has it."""
    return print_op(op)
