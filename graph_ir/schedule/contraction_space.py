"""Spaces of schedules that are steps of a nest: searched by settings of a blocking, offered as text."""

from __future__ import annotations

from ...base.errors import UserError
from ..ir.schedule import Parameter, Schedule
from ..nest.check import invalid_reason
from ..nest.nest import contraction
from ..nest.problem import Contraction
from ..nest.schedule_text import apply
from .context import LowerContext
from .space import ScheduleSpace


class ContractionSpace(ScheduleSpace):
    """A request may be the text of steps, or settings: register tile, blocks, chunks, instruction, layout."""

    takes_steps = True
    ctx: LowerContext

    def contraction(self, point: Schedule) -> Contraction | None:
        """Return the contraction that the kernel is with some settings; None where it is lowered otherwise."""
        raise NotImplementedError

    def steps(self, point: Schedule, problem: Contraction) -> str:
        """Return the steps that settings stand for."""
        raise NotImplementedError

    def defaults(self) -> dict[str, Parameter]:
        """Return settings for what steps leave out."""
        raise NotImplementedError

    def offer(self, point: Schedule) -> Schedule:
        """Return settings as steps."""
        problem = self.contraction(point)
        return point if problem is None else Schedule("", (), self.steps(point, problem))

    def point(self, schedule: Schedule) -> Schedule:
        """Return the settings that steps stand for."""
        if not schedule.steps:
            return schedule
        settings = {**self.defaults(), **schedule.settings}
        return Schedule.of(self.algorithm, **{name: settings[name] for name in self.meanings})

    def complete(self, requested: Schedule) -> Schedule:
        """Return the steps of a request, or its settings with the others from the best candidate."""
        return self.check(requested) if requested.steps else super().complete(requested)

    def check(self, schedule: Schedule) -> Schedule:
        """Return the steps. Raise UserError if the kernel cannot run with them."""
        if not schedule.steps:
            return self.offer(super().check(schedule))
        if not {"mr", "nv"} <= schedule.settings.keys():
            raise self._wrong(
                schedule, "the last steps must contain one such as tensorize 8x3 over m n k"
            )
        point = super().check(self.point(schedule))
        problem = self.contraction(point)
        if problem is None:
            raise self._wrong(
                schedule, "the kernel takes settings in the layouts chosen, not steps"
            )
        if reason := self._misfit(schedule, problem):
            raise UserError(
                f"schedule of '{self.name}': the steps must fit the kernel: {reason}, got '{schedule}'"
            )
        return schedule

    def _misfit(self, schedule: Schedule, problem: Contraction) -> str:
        """Return why steps do not apply to a contraction, "" if they do."""
        try:
            return invalid_reason(apply(contraction(problem), schedule.steps), self.ctx.target)
        except UserError as error:
            return str(error).removeprefix("schedule: ")
