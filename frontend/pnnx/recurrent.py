"""nn.RNN, nn.GRU and nn.LSTM: the input contribution to all gates in one matmul, then a loop over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.control import CountedLoop, Round
from ..correspondence.compositions.indexing import dynamic_size
from ..correspondence.compositions.movement import stack, unstack
from ..correspondence.compositions.recurrent import Cell, State, affine, gru, input_gates, lstm, rnn
from ..correspondence.reading import Pair
from ..op_builder import OpBuilder
from .scope import Node, Results


@dataclass(frozen=True)
class _Kind:
    """The differences between the three; `gates` are in the order of PyTorch's weights."""

    step: Callable[[Cell, State], State]
    gates: str
    bends: tuple[str, ...]
    states: tuple[str, ...] = ("h",)


_KINDS = {
    "rnn": _Kind(rnn, "h", ("tanh",)),
    "gru": _Kind(gru, "rzh", ("sigmoid", "tanh")),
    "lstm": _Kind(lstm, "ifco", ("sigmoid", "tanh", "tanh"), ("h", "c")),
}


def _read_recurrent(node: Node, name: str) -> Results:
    """The sequence alone, or followed by the states (preceded if the file says so)."""
    x, kind = node.tensor_of(), _KINDS[name]
    rank, by_batch = x.details.rank, node.attr_bool("batch_first", False)
    if rank not in (2, 3):
        raise node.rule("the input must have 2 or 3 axes", str(x.details))
    steps, size = x.details.plain_dims[0], x.details.plain_dims[-1]
    if rank == 2:
        x = node.reshaped(x, (steps, 1, size))
    elif by_batch:
        x = node.transposed(x, (1, 0, 2))
    node.argument("dropout")  # of training
    if node.attr_int("input_size", size) != size:
        raise node.rule(f"input_size must be {size}", str(node.attr_int("input_size")))
    y, last = _layers(node, kind, x)
    states = [stack(node, *parts, at=0) for parts in zip(*last, strict=True)]
    if rank == 2:
        y, *states = (
            node.reshaped(z, (z.details.plain_dims[0], z.details.plain_dims[-1]))
            for z in (y, *states)
        )
    elif by_batch:
        y = node.transposed(y, (1, 0, 2))
    swapped = node.given("pnnx_rnn_output_swapped")
    if node.count == 1:
        return y
    return (*states, y) if swapped else (y, *states)


def _initial(node: Node, name: str, count: int, dims: tuple[int, int], x: GraphTensor) -> State:
    """A state [batch, size] for each layer and direction: as given, or zeros."""
    given = node.optional(f"{name}0", x.details.dtype)
    if given is None:
        return [node.broadcast(node.constant(0, x.details.dtype), dims)] * count
    if given.details.elements != count * dims[0] * dims[1]:
        wanted = f"{name}0 must have shape [{count},{dims[0]},{dims[1]}]"
        raise node.rule(wanted, str(given.details))
    return unstack(node, node.reshaped(given, (count, *dims)), 0)


def _layers(node: Node, kind: _Kind, x: GraphTensor) -> tuple[GraphTensor, list[State]]:
    """The sequence [steps, batch, size] after all layers, and the last state of each layer and direction."""
    directions = ("", "_reverse") if node.attr_bool("bidirectional", False) else ("",)
    layers, hidden = node.attr_int("num_layers", 1), node.attr_int("hidden_size")
    sizes = {"h": node.attr_int("proj_size", 0) or hidden, "c": hidden}
    batch, count = x.details.plain_dims[1], layers * len(directions)
    first = [_initial(node, name, count, (batch, sizes[name]), x) for name in kind.states]
    last: list[State] = []
    for layer in range(layers):
        results = []
        for direction in directions:
            state = [states[len(last)] for states in first]
            y, state = _sequence(node, kind, x, state, f"l{layer}{direction}")
            results.append(y)
            last.append(state)
        x = results[0] if len(results) == 1 else node.helper("concat", *results, axis=2)
    return x, last


def _sequence(
    node: Node, kind: _Kind, x: GraphTensor, state: State, suffix: str
) -> tuple[GraphTensor, State]:
    """One direction of one layer, step by step."""
    steps, _, size = x.details.plain_dims
    if steps == 0:
        raise node.rule("a sequence must have steps", str(x.details))
    dtype, is_gru = x.details.dtype, kind.step is gru
    w, r = (node.weight(f"weight_{which}_{suffix}", dtype) for which in ("ih", "hh"))
    if w.details.plain_dims[-1:] != (size,):
        raise node.rule(f"weight_ih_{suffix} must have {size} columns", str(w.details))
    biases = None
    if node.attr_bool("bias", True):
        own, recurrent = (node.weight(f"bias_{which}_{suffix}", dtype) for which in ("ih", "hh"))
        biases = (own, recurrent)
    hidden = w.details.plain_dims[0] // len(kind.gates)
    shares, b_h = input_gates(node, x, w, biases, hidden, is_gru)
    shared = {"shares": shares, "r": r} if b_h is None else {"shares": shares, "r": r, "b_h": b_h}
    bends = [_bend(name) for name in _bend_names(node, kind)]
    if node.attr_int("proj_size", 0):
        shared["projection"] = node.weight(f"weight_hr_{suffix}", dtype)
    backwards = suffix.endswith("_reverse")

    def step(build: OpBuilder, trip: GraphTensor, state: State, same: list[GraphTensor]) -> Round:
        inside = dict(zip(shared, same, strict=True))
        if backwards:
            trip = build.helper("sub", dynamic_size(build, steps - 1), trip)
        row = build.helper("gather", inside.pop("shares"), trip, axis=0)
        projection = inside.pop("projection", None)
        new = kind.step(Cell(build, row, inside, bends, kind.gates, is_gru), state)
        if projection is not None:
            new[0] = affine(build, new[0], projection, None)
        return Round(new, [new[0]])

    *last, y = CountedLoop(node, steps, None, [backwards]).make(state, list(shared.values()), step)
    return y, last


def _bend_names(node: Node, kind: _Kind) -> Sequence[str]:
    """The activations of the gates; an RNN may have another."""
    if kind.step is not rnn:
        return kind.bends
    name = node.attr_text("nonlinearity", *kind.bends)
    if name not in ("tanh", "relu"):
        raise node.rule("nonlinearity must be tanh or relu", name)
    return (name,)


def _bend(name: str) -> Callable[..., GraphTensor]:
    return lambda build, x: build.helper(name, x)


PAIRS = {"recurrent": Pair(_read_recurrent)}
