"""The forms a convolution can run in, and the cost model that ranks them.

A form is the op a convolution is rewritten to, with the cycles its template would take. To add one: write the template,
an op of kind `tunable` derived from `Convolution`, its layouts in `query_format`, its function in `lowering.registry`,
and a row in `FORMS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np

from ...base.contraction import accumulator_of
from ...base.dtypes import F32, S8, U8, DType
from ...base.errors import UserError
from ...base.records import dataclass
from ..ir.graph import Array, GraphTensor, Op
from ..ir.schedule import Parameter, Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.compose import Composer
from ..ops.convolution import Convolution
from ..ops.window import Window, padded
from ..ops.winograd_form import BYTE_FORMS, WinogradForm, holds
from ..ops.winograd_form import FORMS as FLOAT_FORMS
from ..rewriting.groups import is_elementwise
from ..rewriting.values import constant_value
from .context import LowerContext
from .convolution_blocking import ranked_choices
from .convolution_blocks import may_be_blocked
from .convolution_gemm import ConvolutionGemm
from .convolution_sizes import geometry_of
from .cost import Gemm, blocking_cycles
from .direct_convolution import convolution_kernels, offered
from .matmul_tile import pick_blocking, pick_tile
from .requested import wanted_by_name
from .window_tile import depthwise_cycles
from .winograd_tile import WinogradGemm

MIN_ROWS = 8
"""Below this many results per group, a matmul leaves most of its register tile empty, and a loop is faster."""

MODERATE = 2.0**100
"""The largest weights of a Winograd form of floats."""

LARGER_ERRORS = 1.15
"""A form with larger rounding errors must be this many times faster to be chosen."""

Build = Callable[[Composer, Convolution], GraphTensor]
Admits = Callable[[Array, DType], bool]
"""(constant weights, type of the image) -> whether a form can transform these weights."""
Cycles = Callable[[Sequence[ConvolutionGemm]], float | None]
"""The convolution with each microkernel for the types of image and weights, preferred first -> predicted cycles."""


@dataclass(frozen=True)
class ConvolutionForm:
    """One way to run a convolution of floats, or of bytes with s32 sums.

    `build` makes ops that compute the same as the convolution; `algorithms` are those of their kernel's schedules.
    `cycles` predicts their cycles on one core, None where the form cannot run it; `needs` says what it can run.
    `settings`: parameters of the schedule that the form decides. `switches` (of `options.SWITCHES`) each turn the form
    off. `admits`: of a form that prepares the weights at compile time, and so needs them constant, which it can.
    `spatial_axes`: the most it runs. `min_outputs`: results per group from which on it is worth it. `layout` of
    image and result: plain, channels last, or any. Forms are ranked by cycles times `price`.
    """

    name: str
    build: Build
    cycles: Cycles
    algorithms: tuple[str, ...]
    needs: str
    settings: Mapping[str, Parameter] = field(default_factory=dict)
    switches: tuple[str, ...] = ()
    admits: Admits | None = None
    spatial_axes: int = 2
    min_outputs: int = 0
    layout: str = "any"
    price: float = 1.0

    def suits(self, requested: Schedule) -> bool:
        """Return whether the form is one that a schedule asks for."""
        settings = self.settings.items() & requested.settings.items()
        is_named = requested.algorithm in ("", self.name, *self.algorithms)
        return is_named and len(settings) == len(requested.settings.keys() & _DECIDED)


def ranked_forms(
    op: Convolution,
    ctx: LowerContext,
    sizes: ConvolutionGeometry | None = None,
    around: Convolution | None = None,
) -> list[tuple[ConvolutionForm, float]]:
    """The forms worth trying for a convolution, each with its predicted cycles, best first; empty if there is none.

    A form requested by the options precedes all others: that of blocked layouts, or a Winograd form. `sizes`: those to
    rank for, if not the typical ones; `around`: the convolution whose neighbors count, if not those of `op`.
    """
    requested = ctx.options.winograd
    unwanted = {f"winograd-{x}" for x in WINOGRAD if requested not in ("auto", x)}
    outputs = op.outputs[0].details.plain_dims[1] // op.groups
    found = [
        (form, cycles)
        for form, cycles in possible_forms(op, ctx, sizes, around)
        if form.name not in unwanted and outputs >= form.min_outputs
    ]
    first = f"winograd-{requested}"
    if may_be_blocked(convolution_kernels(op, ctx), geometry_of(op), ctx):
        first = "direct"
    return sorted(found, key=lambda pair: (pair[0].name != first, pair[0].price * pair[1]))


def possible_forms(
    op: Convolution,
    ctx: LowerContext,
    sizes: ConvolutionGeometry | None = None,
    around: Convolution | None = None,
) -> list[tuple[ConvolutionForm, float]]:
    """The forms that can run a convolution, each with its predicted cycles; empty if no template can."""
    kernels = convolution_kernels(op, ctx)
    if not kernels or op.outputs[0].details.is_empty:
        return []
    geometry = sizes or geometry_of(op)
    if not geometry.terms:
        return []
    found = []
    ends = _is_given(around or op), _is_returned(around or op)
    problems = [ConvolutionGemm(geometry, kernel, ctx.target) for kernel in kernels]
    for form in FORMS:
        if op.window.rank > form.spatial_axes:
            continue
        cycles = form.cycles(problems)
        if cycles is None or (form.admits is not None and not _admits(form.admits, op)):
            continue
        if all(map(ctx.options.enabled, form.switches)):
            moved = 2.0 * _moved_bytes(op, geometry, form, *ends)
            found.append((form, cycles + moved / ctx.target.machine.image_bytes_per_cycle))
    return found


def _moved_bytes(
    op: Convolution,
    g: ConvolutionGeometry,
    form: ConvolutionForm,
    is_given: bool,
    is_returned: bool,
) -> float:
    """Return the bytes of image and result that lie in another layout before or after a form: plain where nothing but
    elementwise ops leads to what a model takes or returns, else channels last."""
    if form.layout == "any":
        return 0.0
    results = g.outputs * math.prod(g.result) * op.outputs[0].details.dtype.size
    pixels = g.channels * math.prod(g.image) * op.x.details.dtype.size
    is_plain = form.layout == "plain"
    moved = results * (is_returned != is_plain) + pixels * (is_given != is_plain)
    return g.batch * g.groups * moved


def _is_given(op: Convolution) -> bool:
    """Return whether nothing but elementwise ops makes the image of what a model takes."""
    first = op.x.producer_owner
    while is_elementwise(first):
        first = first.inputs[0].producer_owner
    return first.is_input


def _is_returned(op: Op) -> bool:
    """Return whether nothing but elementwise ops uses the result of an op before the model returns it."""
    seen: set[Op] = set()
    pending: list[Op] = [op]
    while pending:
        users = {user for y in pending.pop().outputs for _, user in y.uses} - seen
        if not all(user.kind == "sink" or is_elementwise(user) for user in users):
            return False
        seen |= users
        pending += users
    return True


def _admits(admits: Admits, op: Convolution) -> bool:
    value, types = constant_value(op.inputs[1]), op.contraction
    is_stored_as_summed = types.result == accumulator_of(types.a, types.b)
    return is_stored_as_summed and value is not None and admits(value, types.a)


def _are_moderate(weights: Array, image: DType) -> bool:
    """Return whether weights can be transformed, and recovered from that, without overflow."""
    with np.errstate(all="ignore"):
        return bool(np.abs(weights).max(initial=0) <= MODERATE)


def requested_forms(
    op: Convolution, ctx: LowerContext
) -> list[tuple[ConvolutionForm, float]] | None:
    """The forms that the user requested, best first: none for loops (`reduction`). None where any will do.

    Raise UserError if no such form can run the convolution.
    """
    requested = wanted_by_name(op, ctx) or Schedule("")
    of_convolution = "ky" in requested.steps or "b1" in requested.steps
    if of_convolution or (not requested.algorithm and "band" in requested.settings):
        requested = Schedule("direct")
    if not requested.algorithm and not requested.settings.keys() & _DECIDED:
        return None
    if requested.algorithm == LOOPS:
        return []
    possible = possible_forms(op, ctx)
    found = [(form, cycles) for form, cycles in possible if form.suits(requested)]
    if found:
        return sorted(found, key=lambda pair: pair[0].price * pair[1])
    rule, form = "there is no such form", next((x for x in FORMS if x.suits(requested)), None)
    if form is not None:
        off = next((x for x in form.switches if not ctx.options.enabled(x)), None)
        reason = f"needs {form.needs}" if off is None else f"is switched off by '{off}'"
        rule = f"{requested.algorithm or 'the form'} {reason}"
    names = dict.fromkeys([*(form.name for form, _ in possible), LOOPS])
    raise UserError(
        f"schedule of '{op.name}': {rule}, got '{requested}'; this convolution runs as {', '.join(names)}"
    )


def _im2col(make: Composer, op: Convolution) -> GraphTensor:
    """Weights [groups, O / groups, C / groups * kernel] times im2col [N, groups, C / groups * kernel, pixels]."""
    x, w = op.inputs
    groups, window = op.groups, op.window
    rows, terms = w.details.plain_dims[0] // groups, math.prod(w.details.plain_dims[1:])
    batch, _, *sizes = x.details.plain_dims
    out = op.outputs[0].details.plain_dims
    columns = padded(make, x, window, 0)
    if not _reads_all(window):
        geometry = {"strides": window.strides, "dilations": window.dilations}
        columns = make("im2col", columns, kernel=window.kernel, **geometry)
    group_dims = (groups,) if groups > 1 else ()
    columns = make("reshape", columns, shape=(batch, *group_dims, terms, math.prod(out[2:])))
    matrix = make("reshape", w, shape=(*group_dims, rows, terms))
    attrs = {} if op.dtype is None else {"dtype": op.dtype}
    return make("reshape", make("matmul_core", matrix, columns, **attrs), shape=out)


def _reads_all(window: Window) -> bool:
    """Return whether the windows are the elements themselves, in order."""
    single = all(k == 1 for k in window.kernel) and all(s == 1 for s in window.strides)
    return single and not window.is_padded


def _im2col_cycles(problems: Sequence[ConvolutionGemm]) -> float | None:
    """Return the cycles of the matmul, packing its right-hand side into panels, and writing and reading the
    im2col matrix.

    Weights that do not stay in L2 are read in rows a page or more apart, once for each image. Every image pays for the
    separate kernels for padding and im2col: the order of sums is another than that of the direct form, and the
    number of images must not decide it.
    """
    g, kernel, target = problems[0].geometry, problems[0].kernel, problems[0].target
    if not kernel.accumulator.is_float or g.is_dynamic:
        return None
    pixels, machine = math.prod(g.result), target.machine
    tile = pick_tile(g.outputs, pixels, target, kernel)
    gemm = Gemm(1, g.outputs, pixels, g.terms, kernel, target)
    if kernel.uses_tiles:
        cycles = blocking_cycles(gemm, pick_blocking(gemm, tile), packed=False)
    else:
        packed = g.terms * pixels * kernel.copied_a.size
        cycles = gemm.work(g.outputs, tile) + packed / machine.copy_bytes_per_cycle
    copied = g.terms * pixels * kernel.a.size
    copies = (0 if g.is_pointwise else 2) * copied / machine.copy_bytes_per_cycle
    stored = 0.0 if g.is_pointwise else 2.0 * machine.band_cycles
    weights = g.outputs * g.terms * kernel.a.size
    streamed = weights / machine.strided_bytes_per_cycle if weights > target.l2_bytes else 0.0
    return g.batch * (g.groups * (max(cycles, streamed) + copies) + stored)


def _direct(make: Composer, op: Convolution) -> GraphTensor:
    x, w = op.inputs
    if op.groups > 1:
        outputs, *rest = w.details.plain_dims
        w = make("reshape", w, shape=(op.groups, outputs // op.groups, *rest))
    return make("direct_convolution", x, w, **op.attrs)


def _direct_cycles(problems: Sequence[ConvolutionGemm]) -> float | None:
    """The cycles of its best band, tile and instruction."""
    found = (choice.cycles for choice in offered(problems) if choice.band != "patches")
    return min(found, default=None)


def _patches_cycles(problems: Sequence[ConvolutionGemm]) -> float | None:
    """The cycles of its best tile."""
    found = (choice.cycles for p in problems for choice in ranked_choices(p, ("patches",)))
    return min(found, default=None)


def _winograd(form: WinogradForm, make: Composer, op: Convolution) -> GraphTensor:
    x, w = op.inputs
    u = make("winograd_weights", w, results=form.results)
    where = op.window
    window = {"dilations": where.dilations, "before": where.before, "after": where.after}
    return make("winograd_convolution", x, u, results=form.results, **window)


def _winograd_cycles(form: WinogradForm, problems: Sequence[ConvolutionGemm]) -> float | None:
    """The cycles of its best register tile and blocking; of f32 and of bytes, as floats of 16 bits lose too much in
    the transforms."""
    g, kernel, target = problems[0].geometry, problems[0].kernel, problems[0].target
    once = g.groups == 1 and g.strides == (1, 1)
    types = kernel.a, kernel.b
    known = ((F32, F32),) if form.operand == F32 else ((U8, S8), (S8, S8))
    if not once or g.kernel != (3, 3) or types not in known:
        return None
    return WinogradGemm(g, form, target).ranked_tiles()[0][1]


def _winograd_of_floats(form: WinogradForm) -> ConvolutionForm:
    return ConvolutionForm(
        f"winograd-{form.name}",
        partial(_winograd, form),
        partial(_winograd_cycles, form),
        ("winograd",),
        "f32, a 3 x 3 kernel with strides of 1, one group and finite constant weights",
        {"form": form.name},
        ("winograd", "blocked-layouts", "fold"),
        admits=_are_moderate,
        layout="last",
        price=LARGER_ERRORS,
    )


def _winograd_of_bytes(form: WinogradForm) -> ConvolutionForm:
    return replace(
        _winograd_of_floats(form),
        needs="bytes, results of s32, a 3 x 3 kernel with strides of 1, one group and constant weights whose sums "
        "cannot overflow",
        switches=("byte-winograd", "blocked-layouts", "fold"),
        admits=partial(holds, form),
        price=1.0,
    )


def _depthwise(make: Composer, op: Convolution) -> GraphTensor:
    return make("depthwise_convolution", *op.inputs, **op.attrs)


def _depthwise_cycles(problems: Sequence[ConvolutionGemm]) -> float | None:
    p, g = problems[0], problems[0].geometry
    is_depthwise = g.channels == g.outputs == 1 < g.groups
    return depthwise_cycles(g, p.kernel, p.target) if is_depthwise else None


WINOGRAD = tuple(form.name for form in FLOAT_FORMS.values())

LOOPS = "reduction"
"""Algorithm that is requested to have loops instead of a template."""

FORMS = (
    ConvolutionForm(
        "direct",
        _direct,
        _direct_cycles,
        ("direct",),
        "floats or bytes by signed bytes, and one or two spatial axes",
        switches=("direct-convolution", "blocked-layouts"),
        layout="last",
    ),
    ConvolutionForm(
        "patches",
        _direct,
        _patches_cycles,
        ("direct",),
        "floats that are multiplied as they are, and one or two spatial axes of known sizes",
        switches=("direct-convolution", "blocked-layouts"),
        min_outputs=MIN_ROWS,
        layout="plain",
    ),
    ConvolutionForm(
        "depthwise",
        _depthwise,
        _depthwise_cycles,
        ("windows", "row-windows"),
        "floats or bytes, one channel and one result per group, and several groups",
        switches=("channel-windows", "blocked-layouts"),
    ),
    *map(_winograd_of_floats, FLOAT_FORMS.values()),
    *map(_winograd_of_bytes, BYTE_FORMS.values()),
    ConvolutionForm(
        "im2col",
        _im2col,
        _im2col_cycles,
        ("gemm",),
        "floats",
        spatial_axes=99,
        min_outputs=MIN_ROWS,
        layout="plain",
    ),
)

_DECIDED = frozenset(name for form in FORMS for name in form.settings)
