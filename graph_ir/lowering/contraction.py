"""A kernel that is one contraction: its problem and schedule, and the function around the lowered nest."""

from __future__ import annotations

from ...base.records import dataclass
from ...targets.isa import Target
from ...tensor_ir.nodes import Block, Buffer, Function, Stmt
from ..nest.lower import lower
from ..nest.nest import Nest, Sharing, contraction
from ..nest.problem import Contraction
from ..nest.schedule_text import apply


@dataclass(frozen=True)
class ContractionKernel:
    """A contraction and the elementwise ops after it, before it is lowered.

    `params` are the inputs, each once, then the output; `schedule` is the text of the steps.
    """

    name: str
    params: tuple[Buffer, ...]
    problem: Contraction
    schedule: str
    note: str
    sharing: Sharing = Sharing()

    @property
    def nest(self) -> Nest:
        """Return the nest before its first step: the definition of the result."""
        return contraction(self.problem).changed(sharing=self.sharing)

    def function(self, body: Stmt) -> Function:
        """Return the kernel's function with a body."""
        return Function(self.name, self.params, as_block(body), self.note)

    def lowered(self, target: Target) -> Stmt:
        """Return the nest after all steps as statements."""
        return lower(apply(self.nest, self.schedule), target)


def as_block(body: Stmt) -> Block:
    """Return the body of a function."""
    return body if isinstance(body, Block) else Block((body,))
