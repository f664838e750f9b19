"""Lowers a control op to a Tensor IR function that calls its subgraphs, each a function like `main`.

A loop double-buffers its state: each iteration reads one buffer and writes the other, so that a body may return its
inputs in another order. The first iteration reads the op's inputs; the final state is in the op's outputs.

    condition(x, flag); if flag[0]:
        body(x, y); condition(y, flag)
        while flag[0]:
            body(y, spare); condition(spare, flag)
            if flag[0]: body(spare, y); condition(y, flag)
            else: copy(spare, y)
    else: copy(x, y)

State that the body updates in place is copied to the op's output first and stays there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import BOOL, U8
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Slice
from ..ir.graph import GraphTensor
from ..ops.control import Case, While
from ..passes.plan_memory import Workspace


@dataclass(frozen=True)
class Surroundings:
    """The parameters of a control function besides the op's tensors: the constants, and the op's block of the arena."""

    constants: Buffer
    workspace: Workspace

    @property
    def arena(self) -> Buffer:
        """The op's block."""
        return Buffer("arena", U8, (self.workspace.size,))

    @property
    def shared(self) -> tuple[Slice, Slice]:
        """The last two arguments of every subgraph."""
        return t.slice_of(self.constants), t.slice_of(self.arena, (self.workspace.arena,))


def case_function(
    op: Case, branches: Sequence[str], around: Surroundings, name: str, note: str
) -> Function:
    """A chain of comparisons; `branches` are the functions of the subgraphs."""
    inputs, outputs = _parameters("x", op.inputs), _parameters("y", op.outputs)
    b = t.LoopBuilder()
    index = b.let("index", t.load(inputs[0], ()))

    def choose(number: int) -> None:
        args = [t.slice_of(x) for x in (*inputs[1:], *outputs)]
        if number + 1 == len(branches):
            b.invoke(branches[number], *args, *around.shared)
            return
        with b.when(t.compare("eq", index, number)):
            b.invoke(branches[number], *args, *around.shared)
        with b.otherwise():
            choose(number + 1)

    choose(0)
    return b.function(name, (*inputs, *outputs, around.constants, around.arena), note)


@dataclass(frozen=True)
class LoopParts:
    """The functions of a loop: its subgraphs, and one for each part of the state that copies it."""

    condition: str
    body: str
    copies: tuple[str, ...]


def while_function(
    op: While, parts: LoopParts, around: Surroundings, name: str, note: str
) -> Function:
    """The loop in the module's docstring."""
    inputs, outputs = _parameters("x", op.inputs), _parameters("y", op.outputs)
    b = t.LoopBuilder()
    flag = b.allocate("flag", BOOL, (1,))
    fixed = [t.slice_of(x) for x in inputs[op.carried :]]
    even = [t.slice_of(y) for y in outputs]
    spares = list(zip(around.workspace.spares, even, strict=True))
    odd = [y if at is None else t.slice_of(around.arena, (at,)) for at, y in spares]
    given = [t.slice_of(x) for x in inputs[: op.carried]]
    first = [y if at is None else x for x, (at, y) in zip(given, spares, strict=True)]
    goes_on: Expr = t.load(flag, (0,))

    def decide(state: Sequence[Slice]) -> None:
        b.invoke(parts.condition, *state, *fixed, flag, *around.shared)

    def one_round(before: Sequence[Slice], after: Sequence[Slice]) -> None:
        b.invoke(parts.body, *before, *fixed, *after, *around.shared)
        decide(after)

    def copy(before: Sequence[Slice], after: Sequence[Slice]) -> None:
        for function, source, target in zip(parts.copies, before, after, strict=True):
            if source != target:
                b.invoke(function, source, target)

    copy([x if at is None else y for x, (at, y) in zip(given, spares, strict=True)], even)
    decide(first)
    with b.when(goes_on):
        one_round(first, even)
        with b.repeat(goes_on):
            one_round(even, odd)
            with b.when(goes_on):
                one_round(odd, even)
            with b.otherwise():
                copy(odd, even)
    with b.otherwise():
        copy(first, even)
    return b.function(name, (*inputs, *outputs, around.constants, around.arena), note)


def _parameters(prefix: str, tensors: Sequence[GraphTensor]) -> list[Buffer]:
    return [
        Buffer(f"{prefix}{number}", tensor.details.dtype, tensor.details.physical_dims)
        for number, tensor in enumerate(tensors)
    ]
