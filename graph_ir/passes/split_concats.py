"""Split concats of very many parts into concats of some."""

from __future__ import annotations

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..rewriting.rewrite import rewrite
from ..schedule.context import LowerContext

MAX_PARTS = 64
"""Parts of one kernel, which has a loop nest for each: LLVM takes longer than in proportion to their number."""


def split_concats(graph: Graph, ctx: LowerContext) -> bool:
    """Join every `MAX_PARTS` parts first, if there are more.

    %y = concat(%x0, ..., %x1999)
    ->
    %a = concat(%x0, ..., %x63); %b = concat(%x64, ..., %x127); ...
    %y = concat(%a, %b, ...)

    Most of the first concats are one kernel. Each level copies all elements once more.
    Requires: plain formats. Ensures: no concat of more than `MAX_PARTS` parts.
    """
    return rewrite(graph, {"concat": (_split,)})


def _split(graph: Graph, op: Op) -> GraphTensor | None:
    if len(op.inputs) <= MAX_PARTS:
        return None
    make = Composer(graph, op)
    begins = range(0, len(op.inputs), MAX_PARTS)
    parts = [make("concat", *op.inputs[at : at + MAX_PARTS], **op.attrs) for at in begins]
    return make("concat", *parts, **op.attrs)
