"""Reads the text of a problem: the table of its kinds, nodes of models, and calls of ONNX operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ..base.errors import UserError
from ..base.records import dataclass
from ..base.suggestion import suggestion
from .kinds.attention import attention
from .kinds.convolution import convolution, depthwise
from .kinds.expression import expression
from .kinds.matmul import gemv, matmul
from .kinds.rows import ROWS, reduce, rows, transpose
from .model_node import model_node
from .operator_call import operator_call
from .problem import Problem
from .problem_text import ProblemText, Word, words_of

Read = Callable[[ProblemText, list[Word]], Problem]


@dataclass(frozen=True)
class Kind:
    """One kind: how its words are read after the name, and an example."""

    read: Read
    example: str


EXPRESSION = Kind(expression, '"y = gelu(x) * s + b" 1024x768 bf16')
KINDS = {
    "matmul": Kind(matmul, "matmul m128n768k768 f32 +bias+gelu"),
    "gemv": Kind(gemv, "gemv n768k768 q4_k"),
    "conv": Kind(convolution, "conv n1c64h56w56o64k3p1 f32 +bias+relu"),
    "dwconv": Kind(depthwise, "dwconv n1c144h56w56k3s2p1 f32"),
    "max_pool": Kind(depthwise, "max_pool n1c64h112w112k3s2p1 f32"),
    "attention": Kind(attention, "attention b1h12s128d64 f32 causal"),
    **{name: Kind(rows, f"{name} 1024x1024 f32") for name in ROWS},
    "reduce": Kind(reduce, "reduce sum 1 1024x1024"),
    "transpose": Kind(transpose, "transpose 0213 8x128x12x64"),
}
"""The kinds by the first word."""

OTHERS = ("Softmax(f32[8, 128], axis=-1)", "model.onnx:node")
"""Examples of what has no kind: calls of ONNX operators and kernels of models."""

_CALL = re.compile(r"[A-Z]\w*\(")


def read_problem(text: str) -> Problem:
    """Return the problem of a text. UserError shows where it is wrong, and an example."""
    text = text.strip()
    if _CALL.match(text):
        return operator_call(text)
    path, colon, node = text.rpartition(":")
    if colon and Path(path).suffix:
        return model_node(text, path, node)
    words = words_of(text)
    if any(word.text.strip("\"'") == "=" for word in words):
        return EXPRESSION.read(ProblemText(text, words, EXPRESSION.example), [*words])
    name = words[0].text if words else ""
    if name not in KINDS:
        like = suggestion(name, [*KINDS])
        error = UserError(
            f"problem '{text}': its first word must be a kind of problem; {like} known are {', '.join(KINDS)}"
        )
        examples = [*(kind.example for kind in KINDS.values()), EXPRESSION.example, *OTHERS]
        error.add_note("\n".join(f"    {example}" for example in examples))
        raise error
    kind = KINDS[name]
    return kind.read(ProblemText(text, words, kind.example), [*words[1:]])
