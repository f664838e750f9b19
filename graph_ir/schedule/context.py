"""Inputs of lowering: the target, the options and the requested schedules, passed down as one argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ...base.dims import Size, bounds
from ...base.options import CompileOptions
from ...base.records import dataclass
from ...targets.isa import Target
from ..ir.schedule import Schedule


@dataclass(frozen=True)
class LowerContext:
    """Target and options of one compilation.

    `tuned`: measured schedules by problem, which overrule the cost model where they fit. `requested`: what the user
    wants
    by op name, whole schedules or a few settings of one; it overrules both, and what cannot be done is an error.
    """

    target: Target
    options: CompileOptions = CompileOptions()
    tuned: Mapping[str, Schedule] = field(default_factory=dict)
    requested: Mapping[str, Schedule] = field(default_factory=dict)

    def threads_for(self, elements: Size) -> int:
        """Return the threads for loops over at most `elements`: all, or 1 if waking the others would cost more."""
        large = bounds(elements)[1] >= self.target.machine.parallel_elements
        return self.options.threads if large else 1
