"""The driver of rewriting passes: applies local rules to a graph until none matches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.errors import InternalError
from ..ir.graph import Graph, GraphTensor, Op
from .decisions import record

Rule = Callable[[Graph, Any], GraphTensor | None]
"""(graph, an op of the class that has the rule's name) -> the tensor that replaces its first output: another tensor,
this output if the op was changed in place, or None if the rule does not match. A rule may append ops; every application
must make progress, so that rewriting terminates."""

Rules = Mapping[str, Sequence[Rule]]
"""Rules by the name of the op they match, tried in order."""

Parts = Callable[[Graph, Op], Sequence[GraphTensor] | None]
"""Returns the tensors that replace the results of an op, perhaps of ops that it appends; None for an op that stays."""

MAX_PER_OP = 50
"""Applications per op after which rewriting is assumed not to terminate."""


def rewrite(graph: Graph, rules: Rules) -> bool:
    """Apply rules until none matches, then remove unused ops and sort. Return whether anything changed."""
    state = _Rewriting(graph, rules)
    for op in graph.ops:
        state.visit(op)
    budget = MAX_PER_OP * (len(graph.ops) + 1)
    changed = False
    while state.pending:
        op = state.pending.popleft()
        state.queued.discard(id(op))
        if id(op) not in state.gone and state.apply(op):
            changed = True
            budget -= 1
            if not budget:
                raise InternalError(
                    f"graph '{graph.name}': rewriting around '{op.name}' does not end"
                )
    if changed:
        graph.remove(state.gone.values())
        graph.sort()
    return changed


def replace_ops(
    graph: Graph, parts: Parts, kind: str = "", why: Callable[[Op], str] = str, nested: bool = False
) -> bool:
    """Replace each op that `parts` has other tensors for, then sort. Return whether there were any.

    Args:
        kind: records each replacement as a decision of this kind, for the reason `why(op)`.
        nested: replaces ops that `parts` appends too, and goes from the last op to the first.
    """
    replaced: list[Op] = []
    pending = list(graph.ops if nested else reversed(graph.ops))
    while pending:
        op = pending.pop()
        count = len(graph.ops)
        results = parts(graph, op)
        if results is None:
            continue
        made = graph.ops[count:]
        if kind:
            record(graph, kind, [op.name], [part.name for part in made], why(op))
        pending.extend(made if nested else ())
        for old, new in zip(op.outputs, results, strict=True):
            _check_type(op, old, new, "decomposed into" if nested else "replaced by")
            old.replace_uses(new)
        replaced.append(op)
    graph.remove(replaced)
    if replaced:
        graph.sort()
    return bool(replaced)


def _check_type(op: Op, old: GraphTensor, new: GraphTensor, became: str) -> None:
    types = [(x.details.dtype, x.details.plain_dims) for x in (old, new)]
    if types[0] != types[1]:
        raise InternalError(f"{op.op_name} '{op.name}': {old.details} was {became} {new.details}")


class _Rewriting:
    def __init__(self, graph: Graph, rules: Rules) -> None:
        self.graph = graph
        self.rules = rules
        self.pending: deque[Op] = deque()
        self.queued: set[int] = set()
        self.gone: dict[int, Op] = {}

    def visit(self, op: Op) -> None:
        """Try the rules on `op` later."""
        if op.op_name in self.rules and id(op) not in self.queued:
            self.queued.add(id(op))
            self.pending.append(op)

    def apply(self, op: Op) -> bool:
        """Apply the first rule that fits."""
        for rule in self.rules[op.op_name]:
            producers = [tensor.producer_owner for tensor in op.inputs]
            count = len(self.graph.ops)
            result = rule(self.graph, op)
            if result is None:
                continue
            appended = self.graph.ops[count:]
            for made in appended:
                self.visit(made)
            dropped = self.replace(op, result)
            for producer in producers:
                dropped += self.drop_unused(producer)
            self.note(op, result, dropped, appended)
            return True
        return False

    def note(self, op: Op, result: GraphTensor, dropped: list[str], appended: list[Op]) -> None:
        """Record one application: the op and the ops removed with it, and their replacement."""
        subjects = dict.fromkeys((op.name, *dropped))
        results = [made.name for made in appended if not made.is_constant]
        final = result.producer_owner
        if final.name not in results:
            results.append(final.name)
        why = f"{op.op_name} is the same as {final.op_name} '{final.name}'"
        record(self.graph, "rewritten", subjects, results, why)

    def replace(self, op: Op, result: GraphTensor) -> list[str]:
        """Have the users of an op read `result` instead; the names of the ops that were dropped."""
        old = op.outputs[0]
        _check_type(op, old, result, "replaced by")
        dropped: list[str] = []
        if result is old:
            self.visit(op)
        else:
            old.replace_uses(result)
            dropped = self.drop_unused(op)
        # Rules inspect producers, so consumers of the changed tensor may match now; so may ops that share its inputs.
        for _, user in result.uses:
            self.visit(user)
        return dropped

    def drop_unused(self, op: Op) -> list[str]:
        """Remove an unused op, and then the ops that only it used; their names."""
        dropped: list[str] = []
        doomed = [op]
        while doomed:
            op = doomed.pop()
            used = any(tensor.uses for tensor in op.outputs)
            if used or id(op) in self.gone or op.kind == "sink" or op.is_input:
                continue
            self.gone[id(op)] = op
            dropped.append(op.name)
            op.unlink()
            doomed.extend(tensor.producer_owner for tensor in op.inputs)
        return dropped
