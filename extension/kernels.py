"""Kernels of user code, written in Tensor IR, for ops: their checks and functions. `lab/user_kernels.py` makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..base.errors import InternalError, UserError
from ..base.records import dataclass
from ..base.suggestion import suggestion
from ..graph_ir.ir.graph import Graph, all_ops
from ..graph_ir.ir.op import Op
from ..graph_ir.ir.registry import lookup, names, schema_of
from ..graph_ir.schedule.context import LowerContext
from ..graph_ir.schedule.user_code import KERNELS
from ..targets.isa import Target
from ..tensor_ir.builder import LoopBuilder
from ..tensor_ir.names import identifier
from ..tensor_ir.nodes import Buffer, Function, Module
from ..tensor_ir.verifier import verify
from .blame import called, check_takes
from .instructions import check_available


class KernelBuilder(LoopBuilder):
    """A `LoopBuilder` that also knows the `target` (ISA, vectors, machine) and how many `threads` there will be."""

    def __init__(self, reserved: Sequence[str], target: Target, threads: int) -> None:
        super().__init__(reserved)
        self.target = target
        self.threads = threads


def check_functions(kernel: UserKernel) -> None:
    """Raise UserError if the functions of a kernel take other arguments than they are given."""
    operands = [operand.name for operand in schema_of(kernel.op_name).operands]
    who = f"kernel '{kernel.name}' of {kernel.op_name}"
    check_takes(who, "it", kernel.build, ["b", "op", *operands, "result"])
    if kernel.when is not None:
        check_takes(who, "when", kernel.when, ["op", "target"])


def add_kernel(kernel: UserKernel) -> None:
    """Have all models compiled from now on call a kernel; it replaces one of the same name."""
    KERNELS.pop((kernel.op_name, kernel.name), None)  # the one added last is tried first
    KERNELS[kernel.op_name, kernel.name] = kernel


def check_lowerings(lowerings: Mapping[str, object], graph: Graph) -> None:
    """Raise UserError for a value that is not a kernel, or a name that means other ops than those it computes."""
    ops = {op.name: op.op_name for op in all_ops(graph)}
    for name, lowering in lowerings.items():
        if not isinstance(lowering, UserKernel):
            raise UserError(
                f"lowerings: '{name}' must be a kernel that `graphc.kernel` made, got {type(lowering).__name__}"
            )
        if lowering.op_name not in (name, ops.get(name)):
            raise UserError(
                f"lowerings: '{name}' must be {lowering.op_name} or the name of one in the model, as kernel "
                f"'{lowering.name}' computes only these"
            )


def check_op(op_name: str) -> None:
    """Raise UserError if there is no op of a name, or none that a kernel can compute."""
    known = names()
    if op_name not in known:
        remedy = suggestion(op_name, known) or "define it first"
        raise UserError(f"kernel: its op must be defined, got '{op_name}'; {remedy}")
    if lookup(op_name).kind in ("source", "sink", "control", "fused"):
        raise UserError(
            f"kernel: {op_name} is not an op that a kernel can compute; name one that computes tensors"
        )


@dataclass(frozen=True)
class UserKernel:
    """A kernel in the form that the compiler expects (`graph_ir.schedule.context.UserKernel`)."""

    name: str
    op_name: str
    build: Callable[..., Any]
    when: Callable[[Any, Target], bool] | None

    @property
    def meaning(self) -> tuple[object, ...]:
        """Everything its functions depend on, to be hashed."""
        return self.name, self.op_name, self.build, self.when

    def accepts(self, op: Op, ctx: LowerContext) -> bool:
        """Return whether `when` holds. Raise UserError for an op with several results."""
        if self.when is not None and not called(self._who(op), "when", self.when, op, ctx.target):
            return False
        if len(op.outputs) != 1:
            raise UserError(f"{self._who(op)}: the op must have one result, got {len(op.outputs)}")
        return True

    def function(
        self, op: Op, inputs: Sequence[Buffer], output: Buffer, ctx: LowerContext
    ) -> Function:
        """Call the user's builder and check the Function it returns. Raise UserError if it is invalid."""
        who = self._who(op)
        params = (*dict.fromkeys(inputs), output)
        b = KernelBuilder([p.name for p in params], ctx.target, ctx.options.threads)
        operands = op.schema.by_operand(inputs)
        made = called(who, "it", self.build, b, op, *operands, output)
        label = (self._function_name(op, ctx), f"{op.name} [kernel {self.name}]")
        try:
            function = b.function(label[0], params, label[1]) if made is None else made
            if not isinstance(function, Function) or function.params != params:
                wanted = ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in params)
                raise UserError(f"{who}: it must return nothing, or a function of ({wanted})")
            function = Function(label[0], params, function.body, label[1])
            verify(Module((function,)))
            check_available(function, ctx.target)
        except InternalError as error:
            raise UserError(
                f"{who}: its Tensor IR is not legal: {error}; fix the builder"
            ) from error
        return function

    def _who(self, op: Op) -> str:
        return f"kernel '{self.name}' of {op.op_name} '{op.name}'"

    def _function_name(self, op: Op, ctx: LowerContext) -> str:
        details = op.outputs[0].details
        dims = "x".join(map(str, details.plain_dims)) or "scalar"
        return f"{details.dtype}_{identifier(self.name)}_{dims}__{ctx.target.isa}"
