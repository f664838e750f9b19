"""The steps that follow the result of a problem, written `+bias+gelu+add`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...base.dims import Size
from ..problem_text import ProblemText, Word
from ..program import Program


def _silu(program: Program, y: str) -> str:
    return program.call("Mul", y, program.call("Sigmoid", y))


def _scale(program: Program, y: str) -> str:
    return program.call("Mul", y, program.scalar("factor", 0.125))


UNARY: Mapping[str, Callable[[Program, str], str]] = {
    "relu": lambda program, y: program.call("Relu", y),
    "gelu": lambda program, y: program.call("Gelu", y),
    "silu": _silu,
    "sigmoid": lambda program, y: program.call("Sigmoid", y),
    "tanh": lambda program, y: program.call("Tanh", y),
    "hardswish": lambda program, y: program.call("HardSwish", y),
    "scale": _scale,
}
"""Steps that take no operand."""

BIAS = "bias"
BINARY = {"add": "Add", "mul": "Mul"}
"""Steps that take one more input of the result's shape."""

STEPS = (BIAS, *UNARY, *BINARY)


def taken(text: ProblemText, words: list[Word]) -> list[str]:
    """Remove the words that begin with + from `words`, and return their steps. Raise UserError for an unknown one."""
    steps = []
    for word in [word for word in words if word.text.startswith("+")]:
        words.remove(word)
        column = word.column + 1
        for step in word.text[1:].split("+"):
            steps.append(text.choice(Word(step, column), STEPS, "epilogue"))
            column += len(step) + 1
    return steps


def apply(
    program: Program, y: str, steps: Sequence[str], dims: Sequence[Size], channel_axis: int
) -> str:
    """Append the steps to a result of `dims`, whose bias is along `channel_axis`, a known dimension."""
    for number, step in enumerate(steps):
        if step == BIAS:
            shape = [1] * (len(dims) - channel_axis)
            channels = dims[channel_axis]
            assert isinstance(channels, int)
            shape[0] = channels
            y = program.call("Add", y, program.weight(f"bias_{number}", shape))
        elif step in BINARY:
            y = program.call(BINARY[step], y, program.input(f"other_{number}", dims))
        else:
            y = UNARY[step](program, y)
    return y
