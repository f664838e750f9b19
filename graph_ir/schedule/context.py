"""Inputs of lowering: the target, the options and the requested schedules, passed down as one argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from ...base.dims import Size, bounds
from ...base.options import CompileOptions
from ...base.records import dataclass
from ...targets.isa import Target
from ...tensor_ir.nodes import Buffer, Function
from ..ir.op import Op
from ..ir.schedule import Schedule


class UserKernel(Protocol):
    """A kernel that computes some ops of one name."""

    @property
    def name(self) -> str:
        """The kernel's name among the kernels of the op."""

    @property
    def op_name(self) -> str:
        """The ops it computes."""

    @property
    def meaning(self) -> tuple[object, ...]:
        """Everything its functions depend on, to be hashed."""

    def accepts(self, op: Op, ctx: LowerContext) -> bool:
        """Return whether it can compute this op, all of whose tensors are plain."""

    def function(
        self, op: Op, inputs: Sequence[Buffer], output: Buffer, ctx: LowerContext
    ) -> Function:
        """The function for an op, a buffer for each of its inputs. Raise UserError if user code goes wrong."""


@dataclass(frozen=True)
class LowerContext:
    """Target and options of one compilation.

    `tuned`: measured schedules by problem, which overrule the cost model where they fit. `requested`: what the user
    wants by op name, whole schedules or a few settings of one; it overrules both, and what cannot be done is an error.
    `lowerings`: kernels of user code for this compilation only, by the name of an op or of all ops of a kind.
    """

    target: Target
    options: CompileOptions = CompileOptions()
    tuned: Mapping[str, Schedule] = field(default_factory=dict)
    requested: Mapping[str, Schedule] = field(default_factory=dict)
    lowerings: Mapping[str, UserKernel] = field(default_factory=dict)

    def threads_for(self, elements: Size) -> int:
        """Return the threads for loops over at most `elements`: all, or 1 if waking the others would cost more."""
        large = bounds(elements)[1] >= self.target.machine.parallel_elements
        return self.options.threads if large else 1
