"""The decision log of one compilation: what each pass did to which op, and why.

Passes call `record`; `pipeline.run` opens a stage before each pass and closes it after. The log is the note `DECISIONS`
of the graph, and what explain, compare and report are built on. Every decision also goes to the logger `graphc.<pass>`
at debug level.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import cache
from heapq import heappop, heappush

from ...base.records import dataclass
from ..ir.graph import Graph
from ..ir.note import Note

KINDS = (
    "folded",  # computed at compile time
    "merged",  # equal to another op, which stays
    "removed",  # nothing depended on it
    "rewritten",  # replaced by ops that compute the same
    "decomposed",  # a composite replaced by its parts
    "precision",  # whether an op runs in the precision requested, and why
    "form",  # which of several templates runs an op, and the predicted cycles of the others
    "reordered",  # a change of layout was inserted
    "copied",  # a copy was inserted
    "fused",  # runs in one kernel with others
    "not fused",  # why two ops are in different kernels
    "scheduled",  # how a kernel runs, and who said so
    "placed",  # where in memory a tensor lies
)


@dataclass(frozen=True)
class Decision:
    """One step: `subjects` (ops before it) became `results` (ops after it), for the reason in `text`."""

    stage: int
    pass_name: str
    kind: str
    subjects: tuple[str, ...]
    results: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        arrow = f" -> {', '.join(self.results)}" if self.results else ""
        reason = f": {self.text}" if self.text else ""
        return f"{self.kind} {', '.join(self.subjects)}{arrow}{reason}"


@dataclass(frozen=True)
class Stage:
    """One run of a pass: the number of ops (including constants and inputs) before and after, and their names.

    `enabled` is False where a switch left the pass out.
    """

    number: int
    name: str
    enabled: bool
    changed: bool
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def removed(self) -> tuple[str, ...]:
        """Removed ops, in order, as `op_name name`."""
        kept = set(self.after)
        return tuple(name for name in self.before if name not in kept)

    @property
    def added(self) -> tuple[str, ...]:
        """New ops, in order, as `op_name name`."""
        known = set(self.before)
        return tuple(name for name in self.after if name not in known)


@dataclass
class DecisionLog:
    """Stages and decisions in the order they were made; `source` names the ops before the first stage."""

    source: tuple[str, ...] = ()
    stages: list[Stage] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    current: tuple[int, str] = (0, "")
    _mentions: dict[str, list[int]] = field(default_factory=dict, repr=False, compare=False)
    _indexed: int = field(default=0, repr=False, compare=False)

    def of_stage(self, number: int) -> list[Decision]:
        """The decisions of one pass."""
        return [d for d in self.decisions if d.stage == number]

    def story(self, name: str) -> list[Decision]:
        """Every decision about an op of the source graph and about its replacements, in order."""
        return [decision for decision, _ in self._follow(name)]

    def became(self, name: str) -> set[str]:
        """The names under which an op, or what replaced it, is known after all passes (its own name too)."""
        names = {name}
        for decision, is_subject in self._follow(name, "not fused"):
            if is_subject:
                names.update(decision.results)
        return names

    def _follow(self, name: str, without: str = "") -> Iterator[tuple[Decision, bool]]:
        """Decisions that name an op or its replacements so far, and whether it was their subject.

        Follows links from one decision to the next that names the op, so that queries for every op of a large model
        are cheap.
        """
        self._index_mentions()
        names, pending = {name}, list(self._mentions.get(name, ()))
        last = -1
        while pending:
            number = heappop(pending)
            decision = self.decisions[number]
            if number == last or decision.kind == without:
                continue
            last = number
            is_subject = not names.isdisjoint(decision.subjects)
            yield decision, is_subject
            for result in decision.results if is_subject else ():
                if result not in names:
                    names.add(result)
                    for later in self._mentions[result]:
                        if later > number:
                            heappush(pending, later)

    def _index_mentions(self) -> None:
        """Index the decisions that name an op, for those made since the last query."""
        for number in range(self._indexed, len(self.decisions)):
            decision = self.decisions[number]
            for name in {*decision.subjects, *decision.results}:
                self._mentions.setdefault(name, []).append(number)
        self._indexed = len(self.decisions)


DECISIONS: Note[DecisionLog] = Note("decisions", DecisionLog)


def log_of(graph: Graph) -> DecisionLog:
    """The graph's log; a new one where it has none."""
    return DECISIONS.of(graph)


def start_log(graph: Graph) -> DecisionLog:
    """Begin an empty log."""
    log = DecisionLog(names_of(graph))
    DECISIONS.set(graph, log)
    return log


def record(
    graph: Graph, kind: str, subjects: Iterable[str], results: Iterable[str] = (), text: str = ""
) -> None:
    """Record a decision of the current pass."""
    log = log_of(graph)
    stage, name = log.current
    decision = Decision(stage, name, kind, tuple(subjects), tuple(results), text)
    log.decisions.append(decision)
    _logger(name or "graph").debug("%s: %s", graph.name, decision)


@cache
def _logger(pass_name: str) -> logging.Logger:
    return logging.getLogger(f"graphc.{pass_name}")


def names_of(graph: Graph) -> tuple[str, ...]:
    """Every op as `op_name name`."""
    return tuple(f"{op.op_name} {op.name}" for op in graph.ops)


def close_stage(graph: Graph, log: DecisionLog, enabled: bool, changed: bool) -> Stage:
    """Record what the pass opened by `log.current` did to the ops."""
    number, name = log.current
    before = log.stages[-1].after if log.stages else log.source
    stage = Stage(number, name, enabled, changed, before, names_of(graph) if enabled else before)
    log.stages.append(stage)
    _logger(name).info(
        "%s: %d ops -> %d%s", graph.name, len(stage.before), len(stage.after),
        "" if enabled else " (switched off)",
    )  # fmt: skip
    return stage
