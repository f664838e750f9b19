"""The schedules a kernel may run with: which parameters there are, which values are worth trying, what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ...base.errors import UserError
from ..ir.schedule import Parameter, Schedule


class ScheduleSpace:
    """The schedules of one kernel, in the layouts of its tensors. Subclasses define the candidates.

    `name`: the kernel, for messages. `problem`: its key in a tuning file, "" if it is not tuned.
    """

    algorithm: str
    meanings: Mapping[str, str] = {}
    """Parameter -> what it is, with its unit, in the order they are printed."""
    words: Sequence[str] = ()
    """The parameters that are words; others are numbers from 1."""
    choices: Mapping[str, Sequence[str]] = {}
    """The values of a parameter that is a word, where they are always the same."""
    takes_steps = False
    """A request may be the text of steps."""
    leading: Sequence[str] = ()
    """The parameters that the best values of others depend on: the band, the register tile."""

    def __init__(self, name: str, problem: str = "") -> None:
        self.name = name
        self.problem = problem

    def ranked(self) -> Sequence[Schedule]:
        """The candidates, the cost model's pick first."""
        raise NotImplementedError

    @cached_property
    def candidates(self) -> Sequence[Schedule]:
        """The schedules worth trying, the cost model's pick first; there is at least one."""
        return self.ranked()

    def swept(self) -> Sequence[Schedule]:
        """The candidates, then more for those who have time to measure: register tiles that no table lists."""
        return self.candidates

    @property
    def pick(self) -> Schedule:
        """The cost model's choice."""
        return self.candidates[0]

    def cycles(self, schedule: Schedule) -> float | None:
        """Predicted cycles until the last thread is done; None where there is no model."""
        return None

    def invalid_reason(self, schedule: Schedule) -> str:
        """Return why the kernel cannot run with a schedule that has every parameter, "" if it can."""
        return ""

    def fixed(self) -> Mapping[str, Parameter]:
        """Parameters that the layouts of the operands have decided."""
        return {}

    def check(self, schedule: Schedule) -> Schedule:
        """The schedule itself. Raise UserError if the kernel cannot run with it."""
        if schedule.algorithm != self.algorithm:
            raise self._wrong(schedule, f"the algorithm must be {self.algorithm}")
        self._check_names(schedule)
        if list(schedule.settings) != list(self.meanings):
            raise self._wrong(schedule, "every parameter must be given, in this order")
        for name, value in schedule.parameters:
            if (name in self.words) == isinstance(value, int) or value == 0:
                kind = "a word" if name in self.words else "a number from 1"
                raise self._wrong(schedule, f"{name} must be {kind}")
            known = self.choices.get(name, (value,))
            if value not in known:
                raise self._wrong(schedule, f"{name} must be {' or '.join(map(str, known))}")
        for name, value in self.fixed().items():
            if schedule.settings[name] != value:
                raise self._wrong(schedule, f"{name} must be {value} in the layouts chosen")
        if invalid_reason := self.invalid_reason(schedule):
            raise self._wrong(schedule, invalid_reason)
        return schedule

    def complete(self, requested: Schedule) -> Schedule:
        """Return the requested schedule, completed from the best candidate with the `leading` parameters requested.

        Raise UserError if the kernel cannot run with it.
        """
        if requested.algorithm not in ("", self.algorithm):
            raise self._wrong(requested, f"the algorithm must be {self.algorithm}")
        self._check_names(requested)
        wanted = {name: value for name, value in requested.parameters if name in self.leading}
        near: Sequence[Schedule] = [self.pick]
        pick = self.point(self.pick).settings
        if any(pick[name] != value for name, value in wanted.items()):
            near = self.candidates
            for name, value in wanted.items():
                near = [x for x in near if self.point(x).settings[name] == value] or near
        return self.check(self.point(near[0]).replaced(**requested.settings))

    def point(self, schedule: Schedule) -> Schedule:
        """Return a schedule as settings of every parameter."""
        return schedule

    def tuned(self, found: Schedule | None) -> Schedule:
        """Return the schedule of a tuning file for the problem, if it fits these layouts, or else the cost
        model's pick."""
        if found is None or found.algorithm not in ("", self.algorithm):
            return self.pick
        kept = {name: value for name, value in self.fixed().items() if name in found.settings}
        if not kept.items() <= found.settings.items():
            found = found.replaced(**kept)
        try:
            return self.complete(found)
        except UserError:
            return self.pick

    def _check_names(self, schedule: Schedule) -> None:
        unknown = next((name for name in schedule.settings if name not in self.meanings), None)
        if unknown is not None:
            raise self._wrong(schedule, f"there is no parameter '{unknown}'")

    def _wrong(self, schedule: Schedule, rule: str) -> UserError:
        offer = "; ".join(f"{name}: {meaning}" for name, meaning in self.meanings.items())
        return UserError(
            f"schedule of '{self.name}': {rule}, got '{schedule}'; {self.algorithm} takes {offer}"
        )
