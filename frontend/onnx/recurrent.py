"""LSTM, GRU and RNN: the input contribution to all gates in one product, then a loop over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.control import CountedLoop, Round
from ..op_builder import OpBuilder, Value
from .recurrent_activations import Activation, activations_of
from .scope import Handler, NodeContext

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}

State = list[GraphTensor]
"""[h], or [h, c] of an LSTM, each [batch, hidden]."""


@dataclass(frozen=True)
class _Step:
    """One step of one direction, built into the loop's body. `x` [batch, gates * hidden] has all biases but `b_h`."""

    build: OpBuilder
    node: NodeContext
    x: GraphTensor
    weights: dict[str, GraphTensor]  # r, maybe b_h and p
    bends: Sequence[Activation]

    def make(self, op_name: str, *inputs: GraphTensor) -> GraphTensor:
        return self.build.helper(op_name, *inputs)

    def gates(self, x: GraphTensor, names: str) -> dict[str, GraphTensor]:
        """[batch, gates * hidden] in parts."""
        size = x.details.plain_dims[1] // len(names)
        return {name: self.build.sliced(x, 1, i * size, size) for i, name in enumerate(names)}

    def recurrent(self, h: GraphTensor, r: GraphTensor) -> GraphTensor:
        return self.build.helper("matmul_core", h, r, transpose_b=True)

    def bend(self, number: int, x: GraphTensor) -> GraphTensor:
        """Activation `number` of the direction, its input clipped."""
        if self.node.given("clip"):
            most = self.node.attr_float("clip")
            x = self.build.helper("clamp", x, min=-most, max=most)
        return self.bends[number](self.build, x)


def _rnn(s: _Step, state: State) -> State:
    return [s.bend(0, s.make("add", s.x, s.recurrent(state[0], s.weights["r"])))]


def _gru(s: _Step, state: State) -> State:
    (h,), size = state, state[0].details.plain_dims[1]
    x = s.gates(s.x, "zrh")
    r_zr, r_h = (s.build.sliced(s.weights["r"], 0, i * size, size * n) for i, n in ((0, 2), (2, 1)))
    own = s.gates(s.recurrent(h, r_zr), "zr")
    z, r = (s.bend(0, s.make("add", x[name], own[name])) for name in "zr")
    if s.node.attr_int("linear_before_reset", 0):
        inner = s.recurrent(h, r_h)
        if "b_h" in s.weights:
            inner = s.make("add", inner, s.weights["b_h"])
        inner = s.make("mul", r, inner)
    else:
        inner = s.recurrent(s.make("mul", r, h), r_h)
    new = s.bend(1, s.make("add", x["h"], inner))
    return [s.make("add", new, s.make("mul", z, s.make("sub", h, new)))]


def _lstm(s: _Step, state: State) -> State:
    h, c = state
    gates = s.gates(s.make("add", s.x, s.recurrent(h, s.weights["r"])), "iofc")
    size = c.details.plain_dims[1]
    peep = {}
    if "p" in s.weights:
        peep = {n: s.build.sliced(s.weights["p"], 0, i * size, size) for i, n in enumerate("iof")}

    def gate(name: str, seen: GraphTensor) -> GraphTensor:
        x = gates[name]
        return s.bend(0, s.make("add", x, s.make("mul", peep[name], seen)) if peep else x)

    i = gate("i", c)
    one = s.build.constant(1, c.details.dtype)
    f = s.make("sub", one, i) if s.node.attr_int("input_forget") else gate("f", c)
    c = s.make("add", s.make("mul", f, c), s.make("mul", i, s.bend(1, gates["c"])))
    return [s.make("mul", gate("o", c), s.bend(2, c)), c]


@dataclass(frozen=True)
class _Kind:
    """The differences between the three."""

    step: Callable[[_Step, State], State]
    gates: int
    bends: tuple[str, ...]
    states: tuple[int, ...]  # the inputs that hold the first states


def _recurrent(kind: _Kind) -> Handler:
    def handler(node: NodeContext) -> list[Value]:
        x = node.tensor(0)
        directions = _DIRECTIONS.get(node.attr_text("direction"), ())
        if x.details.rank != 3 or not directions or not x.details.elements:
            raise node.rule(
                "X must be [steps, batch, size] and direction forward, reverse or bidirectional",
                f"{x.details}, '{node.attr_text('direction', 'forward')}'",
            )
        by_batch = node.attr_bool("layout")
        x = node.transposed(x, (1, 0, 2)) if by_batch else x
        bends = activations_of(node, kind.bends, len(directions))
        results = [
            _direction(node, kind, x, i, backwards, bends[i])
            for i, backwards in enumerate(directions)
        ]
        hs = [_stacked(node, [r[place] for r in results], 0) for place in range(len(kind.states))]
        y = _stacked(node, [r[-1] for r in results], 1)  # [steps, directions, batch, hidden]
        if by_batch:
            y = node.transposed(y, (2, 0, 1, 3))
            hs = [node.transposed(h, (1, 0, 2)) for h in hs]
        return [y, *hs]

    return handler


def _stacked(build: OpBuilder, parts: Sequence[GraphTensor], axis: int) -> GraphTensor:
    dims = parts[0].details.plain_dims
    rows = [build.reshaped(x, (*dims[:axis], 1, *dims[axis:])) for x in parts]
    return rows[0] if len(rows) == 1 else build.helper("concat", *rows, axis=axis)


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
    bends: Sequence[Activation],
) -> list[GraphTensor]:
    """The last states of one direction, then its [steps, batch, hidden]."""
    steps, batch, _ = x.details.plain_dims
    hidden = node.details(2).plain_dims[-1]
    shared = _shared(node, kind, x, number)
    state = _first(node, kind, number, (batch, hidden), x)
    fixed = {name: value for name, value in shared.items() if isinstance(value, GraphTensor)}

    def step(build: OpBuilder, trip: GraphTensor, state: State, same: list[GraphTensor]) -> Round:
        inside = {
            name: value if isinstance(value, GraphTensor) else build.graph.make_constant(value)
            for name, value in (shared | dict(zip(fixed, same, strict=True))).items()
        }
        if backwards:
            trip = build.helper("sub", build.constant(steps - 1, S64), trip)
        row = build.helper("gather", inside.pop("shares"), trip, axis=0)
        lengths = inside.pop("lengths", None)
        new = kind.step(_Step(build, node, row, inside, bends), state)
        if lengths is None:
            return Round(new, [new[0]])
        going = build.helper("lt", trip, lengths)
        kept = [build.helper("select", going, a, b) for a, b in zip(new, state, strict=True)]
        zero = build.constant(0, new[0].details.dtype)
        return Round(kept, [build.helper("select", going, new[0], zero)])

    loop = CountedLoop(node, steps, None, [backwards])
    return loop.make(state, list(fixed.values()), step)


def _shared(node: NodeContext, kind: _Kind, x: GraphTensor, number: int) -> dict[str, Value]:
    """The values that all steps of a direction read: arrays if known, so that each body has them as constants."""
    (steps, batch, size) = x.details.plain_dims
    hidden = node.details(2).plain_dims[-1]
    many = kind.gates * hidden
    w = _part(node, 1, number, (many, size))
    r = _part(node, 2, number, (many, hidden))
    b = _part(node, 3, number, (2 * many,))
    p = _part(node, 7, number, (3 * hidden,)) if len(kind.states) > 1 else None
    assert w is not None and r is not None
    flat = node.reshaped(x, (steps * batch, size))
    product = node.helper("matmul_core", flat, node.scope.as_tensor(w), transpose_b=True)
    found: dict[str, Value] = {"r": r} if p is None else {"r": r, "p": p}
    if b is not None:
        both = node.scope.as_tensor(b)
        w_b, r_b = (node.sliced(both, 0, i * many, many) for i in (0, 1))
        if node.attr_int("linear_before_reset", 0):  # the last gate's is reset with the state
            found["b_h"] = node.sliced(r_b, 0, many - hidden, hidden)
            r_b = node.sliced(r_b, 0, 0, many - hidden)
            r_b = node.helper("pad", r_b, before=(0,), after=(hidden,))
        product = node.helper("add", product, node.helper("add", w_b, r_b))
    found["shares"] = node.reshaped(product, (steps, batch, many))
    lengths = node.known(4)
    if node.has(4) and (lengths is None or (lengths != steps).any()):
        found["lengths"] = node.reshaped(node.converted(node.tensor(4), S64), (batch, 1))
    return found


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


HANDLERS: dict[str, Handler] = {
    "RNN": _recurrent(_Kind(_rnn, 1, ("Tanh",), (5,))),
    "GRU": _recurrent(_Kind(_gru, 3, ("Sigmoid", "Tanh"), (5,))),
    "LSTM": _recurrent(_Kind(_lstm, 4, ("Sigmoid", "Tanh", "Tanh"), (5, 6))),
}
