"""Recognize the patterns that user code adds."""

from __future__ import annotations

from ...base.errors import InternalError, UserError
from ..ir.graph import Graph
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext
from ..schedule.user_code import PATTERNS


def recompose_user_patterns(graph: Graph, ctx: LowerContext) -> bool:
    """Replace what patterns of user code match.

    %t = tanh(%x); %y = sub(%x, %t)
    ->
    %y = tanhshrink(%x)

    Requires: topological order; folded constants.
    Ensures: topological order; no pattern matches. Raise UserError if that has no end. Results may round differently.
    """
    rules: dict[str, list[Rule]] = {}
    for pattern in PATTERNS.values():
        for op_name, rule in pattern.rules.items():
            rules.setdefault(op_name, []).append(rule)
    if not rules:
        return False
    try:
        return rewrite(graph, rules)
    except InternalError as error:
        raise UserError(
            f"patterns {', '.join(PATTERNS)} of user code: {error}; fix the patterns"
        ) from error
