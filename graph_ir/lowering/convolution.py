"""Direct convolutions and their epilogue ops as contractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...tensor_ir import builder as t
from ...tensor_ir.names import identifier
from ...tensor_ir.nodes import Expr, Function, Let
from ..ir.computation import Index
from ..ir.schedule import Schedule
from ..nest.epilogue import EpilogueValue
from ..ops.convolution import DirectConvolution
from ..rewriting.kernel_group import KernelGroup
from ..schedule.context import LowerContext
from ..schedule.direct_convolution import DirectSpace
from ..schedule.image_operand import image_operand
from ..templates.convolution_patches import PatchTemplate
from .contraction import ContractionKernel
from .matmul import epilogue_names, epilogue_of, sharing_of
from .notes import group_note


def convolution_function(
    op: DirectConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> Function:
    """A direct convolution and the elementwise ops after it; parameters are the inputs (each once), then the output."""
    made = _Convolution(op, group, schedule, ctx)
    if made.band == "patches":
        return made.patches()
    kernel = made.kernel()
    return kernel.function(kernel.lowered(ctx.target))


def convolution_kernel(
    op: DirectConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
) -> ContractionKernel | None:
    """Return the problem and schedule of a direct convolution; None where it multiplies patches of a plain image."""
    made = _Convolution(op, group, schedule, ctx)
    return None if made.band == "patches" else made.kernel()


class _Convolution:
    """The contraction, its epilogue, and the function around them."""

    def __init__(
        self, op: DirectConvolution, group: KernelGroup, schedule: Schedule, ctx: LowerContext
    ) -> None:
        space = DirectSpace(op, group, ctx)
        self.schedule, self.ctx, self.case = schedule, ctx, space.case(space.point(schedule))
        self.band, self.params = self.case.band, tuple(self.case.memory.values())
        self.note = group_note(group, schedule)

    @property
    def name(self) -> str:
        """Return the name of the kernel."""
        case = self.case
        kind = f"{case.kernel.a}_conv_{self.band}{epilogue_names(case.op, case.group.ops)}"
        tile = f"{case.geometry}_{case.blocking.tile.rows}x{case.columns}"
        return identifier(f"{kind}_{tile}__{self.ctx.target.isa}", 160)

    def kernel(self) -> ContractionKernel:
        """Return the contraction."""
        problem, value = self.case.problem, self._value()
        if value is not None:
            outputs, axes = self.case.geometry.outputs, tuple(problem.free)

            def epilogue(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
                at = dict(zip(axes, index, strict=True))
                channels = at["b1"] * outputs + at["n"]
                return value((at["b0"], channels, at.get("y", t.ZERO), at["m"]), acc)

            problem = replace(problem, epilogue=epilogue)
        sharing = sharing_of(self.ctx)
        return ContractionKernel(
            self.name, self.params, problem, self.schedule.steps, self.note, sharing
        )

    def patches(self) -> Function:
        """Return weights [outputs, terms] times patches [terms, pixels] of bands of rows, all plain."""
        case, target = self.case, self.ctx.target
        image = image_operand(case.op.inputs[0], case.x, case.geometry.image)
        result = image_operand(case.output, case.y, case.geometry.result)
        operands = image, case.w, result
        made = PatchTemplate(
            case.geometry, operands, case.kernel, case.blocking, target, self._value()
        )
        return made.function(self.name, self.params, self.note)

    def _value(self) -> EpilogueValue | None:
        """The epilogue for an index (image, output, line, pixel of it)."""
        case = self.case
        value, dims = epilogue_of(case.op, case.output, case.memory), case.output.details.plain_dims
        return value and _indexed(value, dims, case.lines, case.by_pixel)


def _indexed(
    value: EpilogueValue, dims: Sequence[int], columns: int, by_pixel: bool
) -> EpilogueValue:
    """The epilogue of a plain index into `dims` for one of (image, output, line, pixel of it).

    `columns`: pixels in a line of the template, 0 where that is a row of the result. With `by_pixel` a pixel of a line
    is named by its number in the image: the last axis takes it, or the one before where that has one element, as
    elementwise ops look at index 0 alone there.
    """
    rank = len(dims)

    def of_index(index: Index, acc: Expr) -> tuple[list[Let], Expr]:
        image, output, row, column = index
        if columns and by_pixel:
            number = row * columns + column
            row, column = (number, t.ZERO) if dims[-1] == 1 else (t.ZERO, number)
        elif columns:
            row, column = row + column // columns, column % columns
        pixel = (row, column) if rank == 4 else (column,)
        return value((image, output, *pixel), acc)

    return of_index
