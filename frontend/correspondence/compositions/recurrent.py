"""Steps of RNN, GRU and LSTM, whose weights have their gates in any order, and what the inputs contribute to all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder
from .dynamic_range import rounded_by_range

State = list[Tensor]
"""[h], or [h, c] of an LSTM, each [batch, hidden]."""

Bend = Callable[[OpBuilder, Tensor], Tensor]
"""An activation."""


def affine(node: OpBuilder, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias."""
    projected = node.helper("matmul_core", x, weight, transpose_b=True)
    return projected if bias is None else node.helper("add", projected, bias)


def input_gates(
    node: OpBuilder,
    x: Tensor,
    weight: Tensor,
    biases: tuple[Tensor, Tensor] | None,
    hidden: int,
    resets_matmul: bool,
) -> tuple[Tensor, Tensor | None]:
    """[steps, batch, gates * hidden]: the contribution of x [steps, batch, size] and the biases to all gates.

    A GRU that resets the matmul of the state has the last gate's bias of the state apart: the second result.
    """
    steps, batch, size = x.details.plain_dims
    flat, b_h, bias = node.reshaped(x, (steps * batch, size)), None, None
    many = weight.details.plain_dims[0]
    if biases is not None:
        own, recurrent = biases
        if resets_matmul:
            b_h = node.sliced(recurrent, 0, many - hidden, hidden)
            others = node.sliced(recurrent, 0, 0, many - hidden)
            recurrent = node.helper("pad", others, before=(0,), after=(hidden,))
        bias = node.helper("add", own, recurrent)
    return node.reshaped(affine(node, flat, weight, bias), (steps, batch, many)), b_h


@dataclass(frozen=True)
class Cell:
    """One step of one direction. `x` is the step's part of `input_gates`, `gates` their order in the weights.

    `weights` has `r`, of the state [gates * hidden, hidden], and maybe `b_h` and the peepholes `p` of i, o and f. Where
    r is of bytes with `r_scale` and maybe `r_zero`, states are rounded to u8 by their range before they are multiplied.
    """

    build: OpBuilder
    x: Tensor
    weights: dict[str, Tensor]
    bends: Sequence[Bend]
    gates: str = "h"
    resets_matmul: bool = False
    forgets_the_rest: bool = False

    def make(self, op_name: str, *inputs: Tensor) -> Tensor:
        """An op of the step."""
        return self.build.helper(op_name, *inputs)

    def split(self, x: Tensor, gates: str) -> dict[str, Tensor]:
        """[batch, gates * hidden] in parts."""
        size = x.details.plain_dims[1] // len(gates)
        return {name: self.build.sliced(x, 1, i * size, size) for i, name in enumerate(gates)}

    def recurrent(self, h: Tensor, r: Tensor) -> Tensor:
        """Return the contribution of the state to the gates that r has the rows of."""
        if "r_scale" in self.weights:
            given = [self.weights[name] for name in ("r_scale", "r_zero") if name in self.weights]
            h, r = rounded_by_range(self.build, h), self.build.helper("dequantize", r, *given)
        return affine(self.build, h, r, None)

    def bend(self, number: int, x: Tensor) -> Tensor:
        """An activation of the direction."""
        return self.bends[number](self.build, x)


def rnn(s: Cell, state: State) -> State:
    """h = f(x + r @ h)."""
    return [s.bend(0, s.make("add", s.x, s.recurrent(state[0], s.weights["r"])))]


def gru(s: Cell, state: State) -> State:
    """The gates z and r of update and reset, in this or the other order, then h."""
    (h,), r_all, size = state, s.weights["r"], state[0].details.plain_dims[1]
    x, first = s.split(s.x, s.gates), s.gates[:2]
    if s.resets_matmul:
        own = s.split(s.recurrent(h, r_all), s.gates)
    else:
        own = s.split(s.recurrent(h, s.build.sliced(r_all, 0, 0, 2 * size)), first)
    z, r = (s.bend(0, s.make("add", x[name], own[name])) for name in "zr")
    if s.resets_matmul:
        inner = s.make("add", own["h"], s.weights["b_h"]) if "b_h" in s.weights else own["h"]
        inner = s.make("mul", r, inner)
    else:
        inner = s.recurrent(s.make("mul", r, h), s.build.sliced(r_all, 0, 2 * size, size))
    new = s.bend(1, s.make("add", x["h"], inner))
    return [s.make("add", new, s.make("mul", z, s.make("sub", h, new)))]


def lstm(s: Cell, state: State) -> State:
    """The gates i, f and o of input, forgetting and output, and c of the cell."""
    h, c = state
    gates = s.split(s.make("add", s.x, s.recurrent(h, s.weights["r"])), s.gates)
    size = c.details.plain_dims[1]
    peep = {}
    if "p" in s.weights:
        peep = {n: s.build.sliced(s.weights["p"], 0, i * size, size) for i, n in enumerate("iof")}

    def gate(name: str, seen: Tensor) -> Tensor:
        x = gates[name]
        return s.bend(0, s.make("add", x, s.make("mul", peep[name], seen)) if peep else x)

    i = gate("i", c)
    if s.forgets_the_rest:
        f = s.make("sub", s.build.constant(1, c.details.dtype), i)
    else:
        f = gate("f", c)
    c = s.make("add", s.make("mul", f, c), s.make("mul", i, s.bend(1, gates["c"])))
    return [s.make("mul", gate("o", c), s.bend(2, c)), c]
