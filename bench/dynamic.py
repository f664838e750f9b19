"""A model with dynamic dimensions beside other engines with dynamic shapes, and beside graphc's own model of each size.

Everything is loaded once and then called with each of the case's sizes: results are compared first, then calls are
timed in interleaved rounds. The last row calls all sizes in turn, as a server does: no call has the sizes of the
one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..codegen.host import target_for
from ..driver.compiler import compile as compile_model
from ..runtime.executor import CompiledModel
from .cases import specs_of
from .dynamic_case import Call, DynamicCase
from .engines import FIXED, OnStep, Row, Setting, timed_row
from .measure import interleave
from .peak import measured_peak
from .peers import Contender, Session, gathered, graphc_contender, load_peer

IN_TURN = "in turn"


def compare_dynamic(case: DynamicCase, setting: Setting, report: OnStep) -> list[Row]:
    """A row for each call of a case, and one of all in turn. Peers that cannot run it are named in the rows."""
    report(case.name, 0, len(case.calls))
    model = _compiled(case, setting, case.inputs)
    sessions, refused = gathered(
        setting.peers, lambda name: load_peer(name, case.onnx(), setting.threads)
    )
    peak = measured_peak(target_for(setting.target)) * setting.threads
    rows: list[Row] = []
    turns: dict[str, list[Contender]] = {}
    for done, call in enumerate(case.calls, 1):
        row, contenders = _row(case, call, setting, model, sessions)
        rows.append(replace(row, peak=peak, refused={**refused, **row.refused}))
        for contender in contenders:
            turns.setdefault(contender.name, []).append(contender)
        report(f"{case.name} {call.label}", done, len(case.calls))
    if len(case.calls) > 1:
        rows.append(replace(_in_turn(case, setting, rows, turns), peak=peak, refused=refused))
    return rows


def _compiled(case: DynamicCase, setting: Setting, inputs: Mapping[str, str]) -> CompiledModel:
    return compile_model(case.model, setting.target, setting.threads, inputs, **case.options)


def _row(
    case: DynamicCase, call: Call, setting: Setting, model: CompiledModel, sessions: Mapping[str, Session]
) -> tuple[Row, list[Contender]]:  # fmt: skip
    """One size: checked, then timed; with the contenders that may be called in turn with other sizes."""
    peers, refused = gathered(sessions, lambda name: sessions[name](call.arrays))
    contenders = [graphc_contender(model, call.arrays), *peers.values()]
    with _compiled(case, setting, specs_of(call.arrays)) as alone:
        fixed = graphc_contender(alone, call.arrays, FIXED)
        fixed.run()
        ours, own = contenders[0].results(), fixed.results()
        same = all(a.tobytes() == b.tobytes() for a, b in zip(ours, own, strict=True))
        name, both = f"{case.name} {call.label}", [*contenders, fixed]
        row = timed_row(name, both, setting.rounds, setting.seconds)
        row = replace(row, gflop=alone.stats["gflop"], refused=refused, same_bits=same)
    return row, contenders


def _in_turn(
    case: DynamicCase,
    setting: Setting,
    rows: Sequence[Row],
    turns: Mapping[str, Sequence[Contender]],
) -> Row:
    """All calls one after the other, of the engines that run every one."""
    runs = {
        name: _one_by_one([contender.run for contender in some])
        for name, some in turns.items()
        if len(some) == len(rows)
    }
    timings = interleave(runs, setting.rounds, setting.seconds)
    gflop, worst = sum(row.gflop for row in rows), max(row.worst for row in rows)
    wrong = frozenset[str]().union(*(row.wrong for row in rows))
    return Row(f"{case.name} {IN_TURN}", gflop, 0.0, timings, worst, wrong)


def _one_by_one(runs: Sequence[Callable[[], object]]) -> Callable[[], object]:
    def run() -> None:
        for one in runs:
            one()

    return run
