"""Rows and movement: `softmax 1024x1024`, `reduce sum 1 1024x1024`, `transpose 0213 8x128x12x64`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ...base.dtypes import S64, by_name
from ..problem import Problem, check_memory, problem_of
from ..problem_text import ProblemText, Word
from ..program import Program
from . import epilogue

TYPES = ("f32", "f64", "f16", "bf16", "s32", "s64", "u8", "s8")
REDUCTIONS = {
    "sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd",
    "l2": "ReduceL2", "logsumexp": "ReduceLogSumExp", "argmax": "ArgMax",
}  # fmt: skip
NODE = "rows"


def _norm(op: str, *constants: str) -> Callable[[Program, str, tuple[int, ...]], str]:
    """Return the maker of a normalization over the last axis with weights of that length."""

    def make(program: Program, x: str, shape: tuple[int, ...]) -> str:
        weights = [program.weight(name, shape[-1:]) for name in constants]
        return program.call(op, x, *weights, name=NODE, axis=-1)

    return make


def _rms_norm(program: Program, x: str, shape: tuple[int, ...]) -> str:
    """x * rsqrt(mean(x * x) + epsilon) * weight."""
    axes = program.constant("axes", np.array([-1], np.int64))
    mean = program.call("ReduceMean", program.call("Mul", x, x), axes)
    root = program.call("Sqrt", program.call("Add", mean, program.scalar("epsilon", 1e-5)))
    return program.call("Mul", program.call("Div", x, root), program.weight("g", shape[-1:]))


ROWS: Mapping[str, Callable[[Program, str, tuple[int, ...]], str]] = {
    "softmax": _norm("Softmax"),
    "logsoftmax": _norm("LogSoftmax"),
    "layernorm": _norm("LayerNormalization", "g", "b"),
    "rmsnorm": _rms_norm,
}
"""Kinds that take the last axis of an array as rows."""


def rows(text: ProblemText, words: list[Word]) -> Problem:
    """One of `ROWS`."""
    steps = epilogue.taken(text, words)
    shape, dtype = _shape_and_type(text, words)
    program = Program(text.text, by_name(dtype))
    y = ROWS[text.words[0].text](program, program.input("x", shape), shape)
    y = epilogue.apply(program, y, steps, shape, len(shape) - 1)
    return problem_of(program, y, node=NODE)


def reduce(text: ProblemText, words: list[Word]) -> Problem:
    """`reduce sum 0,2 8x128x768`: over these axes."""
    if len(words) < 3:
        raise text.refuse(None, "a reduction has an operation, axes and a shape")
    op = text.choice(words.pop(0), [*REDUCTIONS], "reduction")
    axes_word = words.pop(0)
    shape, dtype = _shape_and_type(text, words)
    axes = _axes(text, axes_word, axes_word.text.split(","), len(shape))
    program = Program(text.text, by_name(dtype))
    x = program.input("x", shape)
    if op == "argmax":
        if len(axes) > 1:
            raise text.refuse(axes_word, "argmax has one axis")
        y = program.call(REDUCTIONS[op], x, name=NODE, axis=axes[0], keepdims=0)
        return problem_of(program, y, node=NODE, dtype=S64)
    numbers = program.constant("axes", np.array(axes, np.int64))
    y = program.call(REDUCTIONS[op], x, numbers, name=NODE, keepdims=0)
    return problem_of(program, y, node=NODE)


def transpose(text: ProblemText, words: list[Word]) -> Problem:
    """`transpose 0213 8x128x12x64`: the digits are the axes of x in the order of the result's."""
    if len(words) < 2:
        raise text.refuse(None, "a transpose has an order of axes and a shape")
    order = words.pop(0)
    shape, dtype = _shape_and_type(text, words)
    axes = _axes(text, order, [*order.text], len(shape))
    if len(axes) != len(shape):
        raise text.refuse(order, f"the order must name each of the {len(shape)} axes once")
    program = Program(text.text, by_name(dtype))
    y = program.call("Transpose", program.input("x", shape), name=NODE, perm=axes)
    return problem_of(program, y, node=NODE)


def _shape_and_type(text: ProblemText, words: list[Word]) -> tuple[tuple[int, ...], str]:
    shape = text.shape(words.pop(0) if words else None)
    dtype = text.choice(words.pop(0), TYPES, "type") if words else TYPES[0]
    text.nothing_left(words)
    check_memory(text.text, 2 * math.prod(shape) * by_name(dtype).size)
    return shape, dtype


def _axes(text: ProblemText, word: Word, parts: list[str], rank: int) -> list[int]:
    axes = [int(part) if part.isdigit() else -1 for part in parts]
    if len(set(axes)) != len(axes) or not all(0 <= axis < rank for axis in axes):
        raise text.refuse(word, f"axes must be different numbers from 0 to {rank - 1}")
    return axes
