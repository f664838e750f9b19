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

from ...base.dims import symbols_of
from ...base.dtypes import BOOL, U8
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Function, Slice, Var
from ...tensor_ir.sizes import shape_of
from ..ir.graph import GraphTensor
from ..ops.control import Case, ControlOp, While
from ..passes.plan_memory import Workspace


@dataclass(frozen=True)
class Surroundings:
    """The parameters of a control function besides the op's tensors: the constants, and the op's block of the arena."""

    constants: Buffer
    workspace: Workspace

    @property
    def arena(self) -> Buffer:
        """The op's block."""
        return Buffer("arena", U8, shape_of((self.workspace.size,)))

    @property
    def shared(self) -> tuple[Slice, Slice]:
        """The last two arguments of every subgraph."""
        return t.slice_of(self.constants), t.slice_of(self.arena, (self.workspace.arena,))


def case_function(
    op: Case, branches: Sequence[Function], around: Surroundings, name: str, note: str
) -> Function:
    """A chain of comparisons; `branches` are the functions of the subgraphs."""
    inputs, outputs = _parameters("x", op.inputs), _parameters("y", op.outputs)
    b = t.LoopBuilder()
    index = b.let("index", inputs[0][()])

    def choose(number: int) -> None:
        args = [t.slice_of(x) for x in (*inputs[1:], *outputs)]
        if number + 1 == len(branches):
            _call(b, branches[number], *args, *around.shared)
            return
        with b.when(t.equal(index, number)):
            _call(b, branches[number], *args, *around.shared)
        with b.otherwise():
            choose(number + 1)

    choose(0)
    return b.function(name, _parameters_of(op, inputs, outputs, around, branches), note)


@dataclass(frozen=True)
class LoopParts:
    """The functions of a loop: its subgraphs, and one for each part of the state that copies it."""

    condition: Function
    body: Function
    copies: tuple[Function, ...]


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
    goes_on: Expr = flag[0]

    def decide(state: Sequence[Slice]) -> None:
        _call(b, parts.condition, *state, *fixed, flag, *around.shared)

    def one_round(before: Sequence[Slice], after: Sequence[Slice]) -> None:
        _call(b, parts.body, *before, *fixed, *after, *around.shared)
        decide(after)

    def copy(before: Sequence[Slice], after: Sequence[Slice]) -> None:
        for function, source, target in zip(parts.copies, before, after, strict=True):
            if source != target:
                _call(b, function, source, target)

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
    called = (parts.condition, parts.body, *parts.copies)
    return b.function(name, _parameters_of(op, inputs, outputs, around, called), note)


def _call(b: t.LoopBuilder, function: Function, *args: Slice | Buffer) -> None:
    """Call a function, which also takes the dynamic sizes that it needs."""
    b.invoke(function.name, *args, *sizes_of(function))


def sizes_of(function: Function) -> tuple[Var, ...]:
    """The parameters that are dynamic sizes."""
    return tuple(param for param in function.params if isinstance(param, Var))


def _parameters_of(
    op: ControlOp,
    inputs: Sequence[Buffer],
    outputs: Sequence[Buffer],
    around: Surroundings,
    called: Sequence[Function],
) -> tuple[Buffer | Var, ...]:
    """Return the parameters of an op's function: its tensors, surrounding values, and its dynamic sizes and those
    of `called`."""
    own = symbols_of(size for x in (*op.inputs, *op.outputs) for size in x.details.plain_dims)
    sizes = [Var(t.SIZE_PREFIX + symbol.name) for symbol in own]
    sizes += [size for function in called for size in sizes_of(function)]
    return (*inputs, *outputs, around.constants, around.arena, *dict.fromkeys(sizes))


def _parameters(prefix: str, tensors: Sequence[GraphTensor]) -> list[Buffer]:
    return [
        Buffer(f"{prefix}{number}", tensor.details.dtype, shape_of(tensor.details.physical_dims))
        for number, tensor in enumerate(tensors)
    ]
