"""LSTM, GRU and RNN: the input contribution to all gates in one matmul, then a loop over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.dtypes import S64
from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.control import CountedLoop, Round
from ..correspondence.compositions.dynamic_range import rounded_by_range
from ..correspondence.compositions.indexing import dynamic_size
from ..correspondence.compositions.movement import stack
from ..correspondence.compositions.recurrent import Bend, Cell, State, gru, input_gates, lstm, rnn
from ..correspondence.reading import Pair
from ..op_builder import OpBuilder, Value
from .recurrent_activations import activations_of
from .scope import NodeContext

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass(frozen=True)
class _Kind:
    """The differences between the three."""

    step: Callable[[Cell, State], State]
    gates: str
    bends: tuple[str, ...]
    states: tuple[int, ...]  # the inputs that hold the first states


@dataclass(frozen=True)
class Scales:
    """The inputs of a node with the scales of bytes [directions] or [directions, gates * hidden], and zero points."""

    of_w: Sequence[int]
    of_r: Sequence[int]


def read_recurrent(node: NodeContext, name: str, scales: Scales | None = None) -> list[Value]:
    """All states and the last ones of each direction of "lstm", "gru" or "rnn".

    With `scales`, weights are bytes, and X and each state are rounded to u8 by their range before they are multiplied.
    """
    kind = _KINDS[name]
    x = node.tensor(0)
    directions = _DIRECTIONS.get(node.attr_text("direction"), ())
    if x.details.rank != 3 or not directions or not x.details.elements:
        raise node.rule(
            "X must be [steps, batch, size] and direction forward, reverse or bidirectional",
            f"{x.details}, '{node.attr_text('direction', 'forward')}'",
        )
    by_batch = node.attr_bool("layout")
    x = node.transposed(x, (1, 0, 2)) if by_batch else x
    x = x if scales is None else rounded_by_range(node, x)
    bends = _clipped(node, activations_of(node, kind.bends, len(directions)))
    results = [
        _direction(node, kind, x, i, backwards, bends[i], scales)
        for i, backwards in enumerate(directions)
    ]
    hs = [stack(node, *(r[number] for r in results), at=0) for number in range(len(kind.states))]
    y = stack(node, *(r[-1] for r in results), at=1)  # [steps, directions, batch, hidden]
    if by_batch:
        y = node.transposed(y, (2, 0, 1, 3))
        hs = [node.transposed(h, (1, 0, 2)) for h in hs]
    return [y, *hs]


def _clipped(node: NodeContext, bends: list[list[Bend]]) -> list[list[Bend]]:
    """The activations of each direction; with `clip` their inputs are clipped."""
    if not node.given("clip"):
        return bends
    most = node.attr_float("clip")

    def clipped(bend: Bend) -> Bend:
        return lambda build, x: bend(build, build.helper("clamp", x, min=-most, max=most))

    return [[clipped(bend) for bend in each] for each in bends]


def _part(node: NodeContext, index: int, number: int, dims: tuple[int, ...]) -> Value | None:
    """The part of input `index` for direction `number`; an array if it is known."""
    if not node.has(index):
        return None
    given = node.details(index).plain_dims
    if given[1:] != dims or given[0] <= number:
        raise node.rule(f"input {index} must have shape [directions,{dims}]", str(list(given)))
    known = node.known(index)
    if known is not None:
        return known[number]
    return node.reshaped(node.sliced(node.tensor(index), 0, number, 1), dims)


def _direction(
    node: NodeContext,
    kind: _Kind,
    x: GraphTensor,
    number: int,
    backwards: bool,
    bends: Sequence[Bend],
    scales: Scales | None,
) -> list[GraphTensor]:
    """The last states of one direction, then its [steps, batch, hidden]."""
    steps, batch, _ = x.details.plain_dims
    hidden = node.details(2).plain_dims[-1]
    shared = _shared(node, kind, x, number, scales)
    state = _first(node, kind, number, (batch, hidden), x)
    fixed = {name: value for name, value in shared.items() if isinstance(value, GraphTensor)}

    def step(build: OpBuilder, trip: GraphTensor, state: State, same: list[GraphTensor]) -> Round:
        inside = {
            name: value if isinstance(value, GraphTensor) else build.graph.make_constant(value)
            for name, value in (shared | dict(zip(fixed, same, strict=True))).items()
        }
        if backwards:
            trip = build.helper("sub", dynamic_size(build, steps - 1), trip)
        row = build.helper("gather", inside.pop("shares"), trip, axis=0)
        lengths = inside.pop("lengths", None)
        flags = (_resets_matmul(node), node.attr_bool("input_forget", False))
        new = kind.step(Cell(build, row, inside, bends, kind.gates, *flags), state)
        if lengths is None:
            return Round(new, [new[0]])
        going = build.helper("lt", trip, lengths)
        kept = [build.helper("select", going, a, b) for a, b in zip(new, state, strict=True)]
        zero = build.constant(0, new[0].details.dtype)
        return Round(kept, [build.helper("select", going, new[0], zero)])

    loop = CountedLoop(node, steps, None, [backwards])
    return loop.make(state, list(fixed.values()), step)


def _shared(
    node: NodeContext, kind: _Kind, x: GraphTensor, number: int, scales: Scales | None
) -> dict[str, Value]:
    """The values that all steps of a direction read: arrays if known, so that each body has them as constants."""
    steps, batch, size = x.details.plain_dims
    hidden = node.details(2).plain_dims[-1]
    many = len(kind.gates) * hidden
    w = _part(node, 1, number, (many, size))
    r = _part(node, 2, number, (many, hidden))
    b = _part(node, 3, number, (2 * many,))
    p = _part(node, 7, number, (3 * hidden,)) if len(kind.states) > 1 else None
    assert w is not None and r is not None
    found: dict[str, Value] = {"r": r} if p is None else {"r": r, "p": p}
    biases = None
    if b is not None:
        both = node.scope.as_tensor(b)
        biases = (node.sliced(both, 0, 0, many), node.sliced(both, 0, many, many))
    weight = node.scope.as_tensor(w)
    if scales is not None:
        given = _scales(node, scales.of_w, number, many)
        weight = node.helper("dequantize", weight, *map(node.scope.as_tensor, given))
        found |= zip(("r_scale", "r_zero"), _scales(node, scales.of_r, number, many), strict=False)
    found["shares"], b_h = input_gates(node, x, weight, biases, hidden, _resets_matmul(node))
    found |= {} if b_h is None else {"b_h": b_h}
    lengths = node.known(4)
    if node.has(4) and (lengths is None or (lengths != steps).any()):
        found["lengths"] = node.reshaped(node.converted(node.tensor(4), S64), (batch, 1))
    return found


def _scales(node: NodeContext, inputs: Sequence[int], number: int, many: int) -> list[Value]:
    """Scale and zero point, if given, of the weights of one direction, for all or for each of their rows."""
    found: list[Value] = []
    for index in inputs:
        if not node.has(index):
            continue
        each = (many,) if node.details(index).rank > 1 else ()
        part = _part(node, index, number, each)
        assert part is not None
        dims = (*each, 1) if each else (1, 1)
        if isinstance(part, GraphTensor):
            found.append(node.reshaped(part, dims))
        else:
            found.append(np.reshape(part, dims))
    return found


def _resets_matmul(node: NodeContext) -> bool:
    """Return whether a GRU applies the reset gate to the matmul of its state, rather than to the state."""
    return node.attr_bool("linear_before_reset", False)


def _first(
    node: NodeContext, kind: _Kind, number: int, dims: tuple[int, int], x: GraphTensor
) -> State:
    """The initial states: as given, or zeros."""
    by_batch = node.attr_bool("layout")
    found = []
    for index in kind.states:
        if not node.has(index):
            zero = node.constant(0, x.details.dtype)
            found.append(node.helper("broadcast", zero, shape=dims))
            continue
        given = node.tensor(index)
        given = node.transposed(given, (1, 0, 2)) if by_batch else given
        if given.details.plain_dims[1:] != dims or given.details.plain_dims[0] <= number:
            raise node.rule(f"the first state must be [directions,{dims}]", str(given.details))
        found.append(node.reshaped(node.sliced(given, 0, number, 1), dims))
    return found


_KINDS = {
    "rnn": _Kind(rnn, "h", ("Tanh",), (5,)),
    "gru": _Kind(gru, "zrh", ("Sigmoid", "Tanh"), (5,)),
    "lstm": _Kind(lstm, "iofc", ("Sigmoid", "Tanh", "Tanh"), (5, 6)),
}

PAIRS = {"recurrent": Pair(read_recurrent)}
