"""Choose how each kernel runs.

before   %y = fused(%x, %w)                 as fusion and layouts left it
after    %y = fused(%x, %w), schedule = "gemm mr=4 nv=3 mc=32 kc=512 ng=2 b=panels use=fma"
Requires: the ops left are the kernels, their layouts final. Ensures: each op that may run in several ways has a
schedule that its kernel can run with.

What the user requested an op goes before what was measured for its problem, and that before the cost model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...base.dims import UndecidedSize
from ...base.errors import UserError
from ..ir.graph import Graph, Op, subgraphs_of
from ..ir.schedule import Schedule
from ..rewriting.decisions import log_of, record
from ..rewriting.groups import is_view
from ..rewriting.kernel_group import group_of
from ..schedule.context import LowerContext
from ..schedule.requested import is_called
from ..schedule.space import ScheduleSpace
from ..schedule.spaces import space_of


def choose_schedules(graph: Graph, ctx: LowerContext) -> bool:
    """Set the schedule of every kernel of a graph. Raise UserError if what was requested cannot run."""
    spaces = {op: None if is_view(op) else _space(op, ctx) for op in graph.ops}
    kernels = {op: space for op, space in spaces.items() if space is not None}
    requested: dict[Op, tuple[str, Schedule]] = {}
    for name, wanted in ctx.requested.items():
        wanted = _within_form(graph, name, wanted)
        requested |= dict.fromkeys(_meant(graph, kernels, name, wanted), (name, wanted))
    changed = False
    for op, space in kernels.items():
        schedule, why = _chosen(space, ctx, *requested.get(op, ("", None)))
        if schedule != op.schedule:
            op.schedule = schedule
            record(graph, "scheduled", [op.name], [op.name], f"{schedule}, {why}")
            changed = True
    return changed


def _space(op: Op, ctx: LowerContext) -> ScheduleSpace | None:
    try:
        return space_of(op, ctx)
    except UndecidedSize as error:
        raise op.undecided(error) from error


def _chosen(
    space: ScheduleSpace, ctx: LowerContext, name: str, requested: Schedule | None
) -> tuple[Schedule, str]:
    """(the schedule, who wants it); `requested`: what the user wants of the op called `name`."""
    if requested is not None:
        return space.complete(requested), f"requested '{name}'"
    measured = ctx.tuned.get(space.problem)
    schedule = space.tuned(measured)
    return schedule, "as measured" if measured == schedule else "by the cost model"


def _within_form(graph: Graph, name: str, requested: Schedule) -> Schedule:
    """Return the requested schedule, for a convolution without the algorithm, which `select_convolution_algorithm`
    has applied."""
    names = {name, f"{name}.convolution"}
    forms = (d for d in log_of(graph).decisions if d.kind == "form")
    obeyed = any(not names.isdisjoint(d.subjects) for d in forms)
    return Schedule("", requested.parameters, requested.steps) if obeyed else requested


def _meant(
    graph: Graph, kernels: Mapping[Op, ScheduleSpace], name: str, requested: Schedule
) -> list[Op]:
    """The kernels that a user means by the name of an op: that of the op, or those of what it became.

    Of several those that have such settings, as copies before and after it have not.
    """
    found = parts_of(graph, kernels, name)
    own = [op for op in found if any(is_called(x, name) for x in (op, *group_of(op).ops))]
    found = own or found
    suited = [op for op in found if _may_take(kernels[op], requested)]
    return suited or found[:1]


def _may_take(space: ScheduleSpace, requested: Schedule) -> bool:
    """Return whether a schedule is of a space's kind."""
    if requested.steps:
        return space.takes_steps
    is_named = requested.algorithm in ("", space.algorithm)
    return is_named and requested.settings.keys() <= space.meanings.keys()


def check_requested(graph: Graph, ctx: LowerContext) -> None:
    """Raise UserError if a schedule was requested an op that is in no kernel of the graph or its subgraphs."""
    scopes = [graph]
    for scope in scopes:
        scopes += [inner for op in scope.ops if op.kind == "control" for inner in subgraphs_of(op)]
    kernels = [(scope, [op for op in scope.ops if op.schedule is not None]) for scope in scopes]
    for name in ctx.requested:
        if not any(parts_of(scope, ops, name) for scope, ops in kernels):
            known = [group_of(op).ops[0].name for _, ops in kernels for op in ops]
            raise UserError(
                f"schedule of '{name}': the op must be one of the model's kernels, got no such op; "
                f"there are {', '.join(known[:20])}"
            )


def parts_of(graph: Graph, kernels: Iterable[Op], name: str) -> list[Op]:
    """The kernels that compute the op of the model called `name`, or a part of it."""
    became = log_of(graph).became(name)
    return [
        op
        for op in kernels
        if any(is_called(x, name) or x.name in became for x in (op, *group_of(op).ops))
    ]
