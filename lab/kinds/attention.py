"""`attention b1h12s128d64 f32 causal`: softmax(Q K^T / sqrt(d)) V of several heads."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import by_name
from ..problem import Problem, check_memory, problem_of
from ..problem_text import ProblemText, Word
from ..program import Program

LETTERS = {
    "b": "batch", "h": "heads", "s": "queries", "t": "keys, as many as queries if left out", "d": "width of a head",
    "v": "width of values, as of a head if left out",
}  # fmt: skip
TYPES = ("f32", "f16", "bf16")
WORDS = ("causal", "mask")
NODE = "scores"


def attention(text: ProblemText, words: list[Word]) -> Problem:
    """`causal`: a query sees the keys up to its own; `mask`: an input [b, 1, s, t] is added to the scores."""
    sizes = text.sizes(words.pop(0) if words else None, LETTERS, "sd")
    b, h, s, d = (sizes.get(letter, 1) for letter in "bhsd")
    t, width = sizes.get("t", s), sizes.get("v", d)
    types = (
        text.choice(words.pop(0), TYPES, "type") if words and words[0].text in TYPES else TYPES[0]
    )
    options = [text.choice(word, WORDS, "word") for word in words]
    if not isinstance(d, int):
        raise text.refuse(text.words[1], "the width of a head, d, must be a number")
    if not isinstance(width, int):
        raise text.refuse(text.words[1], "the width of values, v, must be a number")
    if "causal" in options and not (isinstance(s, int) and isinstance(t, int) and s <= t):
        raise text.refuse(words[0], "causal attention needs numbers s and t, s at most t")
    check_memory(text.text, 4 * b * h * ((s + t) * (d + width) + s * t))
    program = Program(text.text, by_name(types))
    queries = program.input("q", (b, h, s, d))
    keys, values = program.input("k", (b, h, t, d)), program.input("v", (b, h, t, width))
    scaled = program.call("Mul", queries, program.scalar("factor", d**-0.5))
    scores = program.call(
        "MatMul", scaled, program.call("Transpose", keys, perm=[0, 1, 3, 2]), name=NODE
    )
    if "causal" in options:
        assert isinstance(s, int) and isinstance(t, int)
        hidden = np.triu(np.full((s, t), -1e4, np.float32), 1 + t - s).astype(program.dtype.numpy)
        scores = program.call("Add", scores, program.constant("causal", hidden))
    if "mask" in options:
        scores = program.call("Add", scores, program.input("mask", (b, 1, s, t)))
    y = program.call("MatMul", program.call("Softmax", scores, axis=-1), values)
    return problem_of(program, y, 2 * b * h * s * t * (d + width), NODE, types)
