"""nn.RNN, nn.GRU and nn.LSTM, one group of ops per step: the number of steps is fixed in the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, Node, Value

MAX_STEPS = 1024
"""Limit on steps of a sequence: each step is built from separate ops."""


@dataclass(frozen=True)
class _Direction:
    """One direction of one layer; `suffix` is that of its weights. Biases are None where there are none."""

    node: Node
    suffix: str
    w_hh: GraphTensor
    b_hh: GraphTensor | None

    def make(self, op_name: str, *inputs: GraphTensor) -> GraphTensor:
        return self.node.helper(op_name, *inputs)

    def recurrent(self, h: GraphTensor) -> GraphTensor:
        """The state's contribution to the gates: [batch, gates * hidden]."""
        return _affine(self.node, h, self.w_hh, self.b_hh)

    def gates(self, x: GraphTensor, count: int) -> list[GraphTensor]:
        """[batch, count * hidden] in `count` parts."""
        size = x.details.plain_dims[1] // count
        return [self.node.sliced(x, 1, i * size, size) for i in range(count)]


State = tuple[GraphTensor, ...]
"""(h,), or (h, c) of an LSTM, each [batch, size]."""

Step = Callable[[_Direction, GraphTensor, State], State]


def _affine(
    node: Node, x: GraphTensor, weight: GraphTensor, bias: GraphTensor | None
) -> GraphTensor:
    product = node.helper("matmul_core", x, weight, transpose_b=True)
    return product if bias is None else node.helper("add", product, bias)


def _lstm_step(d: _Direction, x: GraphTensor, state: State) -> State:
    h, c = state
    i, f, g, o = d.gates(d.make("add", x, d.recurrent(h)), 4)
    i, f, o = (d.make("sigmoid", gate) for gate in (i, f, o))
    c = d.make("add", d.make("mul", f, c), d.make("mul", i, d.make("tanh", g)))
    h = d.make("mul", o, d.make("tanh", c))
    if d.node.attr_int("proj_size", 0):
        projection = d.node.weight(f"weight_hr_{d.suffix}", h.details.dtype)
        h = _affine(d.node, h, projection, None)
    return h, c


def _gru_step(d: _Direction, x: GraphTensor, state: State) -> State:
    (h,) = state
    (xr, xz, xn), (hr, hz, hn) = d.gates(x, 3), d.gates(d.recurrent(h), 3)
    r, z = (d.make("sigmoid", d.make("add", a, b)) for a, b in ((xr, hr), (xz, hz)))
    n = d.make("tanh", d.make("add", xn, d.make("mul", r, hn)))
    return (d.make("add", n, d.make("mul", z, d.make("sub", h, n))),)


def _rnn_step(d: _Direction, x: GraphTensor, state: State) -> State:
    bend = d.node.attr_text("nonlinearity", "tanh")
    if bend not in ("tanh", "relu"):
        raise d.node.rule("nonlinearity must be tanh or relu", bend)
    return (d.make(bend, d.make("add", x, d.recurrent(state[0]))),)


def _recurrent(step: Step, state_names: tuple[str, ...]) -> Handler:
    def run(node: Node) -> Value | tuple[Value, ...]:
        x = node.tensor_of()
        rank, batch_first = x.details.rank, node.attr_bool("batch_first", False)
        if rank not in (2, 3):
            raise node.rule("the input must have 2 or 3 axes", str(x.details))
        steps, size = x.details.plain_dims[0], x.details.plain_dims[-1]
        if rank == 2:
            x = node.reshaped(x, (steps, 1, size))
        elif batch_first:
            x = node.transposed(x, (1, 0, 2))
        node.argument("dropout")  # of training
        if node.attr_int("input_size", size) != size:
            raise node.rule(f"input_size must be {size}", str(node.attr_int("input_size")))
        count = node.attr_int("num_layers", 1) * (1 + node.attr_bool("bidirectional", False))
        first = _initial(node, x, state_names, count)
        y, last = _layers(node, step, x, first)
        if rank == 2:
            y = node.reshaped(y, (steps, y.details.plain_dims[-1]))
        elif batch_first:
            y = node.transposed(y, (1, 0, 2))
        return _outputs(node, y, _joined(node, last, rank))

    return Handler(run, ("input", *(f"{name}0" for name in state_names)))


def _initial(
    node: Node, x: GraphTensor, names: tuple[str, ...], count: int
) -> list[list[GraphTensor]]:
    """For each state, its [batch, size] for each layer and direction: as given, or zeros."""
    hidden, batch = node.attr_int("hidden_size"), x.details.plain_dims[1]
    sizes = {"h": node.attr_int("proj_size", 0) or hidden, "c": hidden}
    found = []
    for name in names:
        dims = (batch, sizes[name])
        given = node.optional(f"{name}0", x.details.dtype)
        if given is None:
            zero = node.constant(0, x.details.dtype)
            found.append([node.broadcast(zero, dims)] * count)
            continue
        if given.details.elements != count * batch * sizes[name]:
            wanted = f"{name}0 must have shape [{count},{batch},{sizes[name]}]"
            raise node.rule(wanted, str(given.details))
        whole = node.reshaped(given, (count, *dims))
        rows = [node.sliced(whole, 0, i, 1) for i in range(count)]
        found.append([node.reshaped(row, dims) for row in rows])
    return found


def _layers(
    node: Node, step: Step, x: GraphTensor, first: list[list[GraphTensor]]
) -> tuple[GraphTensor, list[State]]:
    """The sequence [steps, batch, size] after all layers, and the last state of each layer and direction."""
    directions = ("", "_reverse") if node.attr_bool("bidirectional", False) else ("",)
    last: list[State] = []
    for layer in range(node.attr_int("num_layers", 1)):
        results = []
        for direction in directions:
            state = tuple(states[len(last)] for states in first)
            y, state = _sequence(node, step, x, state, f"l{layer}{direction}")
            results.append(y)
            last.append(state)
        x = results[0] if len(results) == 1 else node.helper("concat", *results, axis=2)
    return x, last


def _sequence(
    node: Node, step: Step, x: GraphTensor, state: State, suffix: str
) -> tuple[GraphTensor, State]:
    """One direction of one layer: the inputs' contribution to all gates in one product, then step by step."""
    steps, batch, size = x.details.plain_dims
    if not 1 <= steps <= MAX_STEPS:
        raise node.unsupported(f"a sequence of {steps} steps (1 to {MAX_STEPS} are)")
    dtype = x.details.dtype
    w_ih, w_hh = (node.weight(f"weight_{kind}_{suffix}", dtype) for kind in ("ih", "hh"))
    has_bias = node.attr_bool("bias", True)
    if w_ih.details.plain_dims[-1:] != (size,):
        raise node.rule(f"weight_ih_{suffix} must have {size} columns", str(w_ih.details))
    b_ih, b_hh = (
        node.weight(f"bias_{kind}_{suffix}", dtype) if has_bias else None for kind in ("ih", "hh")
    )
    shares = _affine(node, node.reshaped(x, (steps * batch, size)), w_ih, b_ih)
    d = _Direction(node, suffix, w_hh, b_hh)
    order = range(steps - 1, -1, -1) if suffix.endswith("_reverse") else range(steps)
    found: dict[int, GraphTensor] = {}
    for t in order:
        state = step(d, node.sliced(shares, 0, t * batch, batch), state)
        found[t] = node.reshaped(state[0], (1, *state[0].details.plain_dims))
    every = [found[t] for t in range(steps)]
    return (every[0] if steps == 1 else node.helper("concat", *every, axis=0)), state


def _joined(node: Node, last: list[State], rank: int) -> list[GraphTensor]:
    """Each state as [layers * directions, batch, size], without the batch where the input has none."""
    found = []
    for states in zip(*last, strict=True):
        rows = [node.reshaped(state, (1, *state.details.plain_dims)) for state in states]
        whole = rows[0] if len(rows) == 1 else node.helper("concat", *rows, axis=0)
        count, _, size = whole.details.plain_dims
        found.append(node.reshaped(whole, (count, size)) if rank == 2 else whole)
    return found


def _outputs(node: Node, y: GraphTensor, states: list[GraphTensor]) -> Value | tuple[Value, ...]:
    """The sequence alone, or followed by the states (preceded if the file says so)."""
    swapped = node.given("pnnx_rnn_output_swapped")
    if node.count == 1:
        return y
    return (*states, y) if swapped else (y, *states)


HANDLERS: dict[str, Handler] = {
    "nn.RNN": _recurrent(_rnn_step, ("h",)),
    "nn.GRU": _recurrent(_gru_step, ("h",)),
    "nn.LSTM": _recurrent(_lstm_step, ("h", "c")),
}
"""Operators of this family."""
