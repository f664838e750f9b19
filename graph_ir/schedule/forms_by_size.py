"""Forms of a convolution by the number of its results: the same in the static model and in the dynamic one.

Weights of a Winograd form are larger than those of all others, and with few pixels reading weights is what takes the
time: the direct form or F(2x2) is best for few images, F(4x4) for many. These add in other orders, so what a number of
images runs as must not depend on which numbers the model is for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from ...base.dims import bounds, evaluate, symbols_of
from ...base.records import dataclass
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.convolution import Convolution
from .context import LowerContext
from .convolution_forms import ConvolutionForm, ranked_forms
from .convolution_sizes import geometry_of, with_images_of

MAX_IMAGES = 64
"""The number of images from which on the best form is no other any more."""

IMAGE_SIZES = (128, 512)
"""Heights and widths that images have where nothing bounds them; smaller ones run in the form for these."""

FEWEST_FIRST = ("direct", "winograd-f2", "winograd-f4")
"""Forms that one kernel may choose from, in the order in which more pixels want them."""

Best = Callable[[int], ConvolutionForm]


@dataclass(frozen=True)
class FormsBySize:
    """The form for most results first; each of the others runs for up to `few` pixels of results."""

    forms: tuple[ConvolutionForm, ...]
    few: tuple[int, ...] = ()


def forms_by_size(op: Convolution, ctx: LowerContext) -> FormsBySize:
    """The forms of a convolution that some form can run, for the sizes that it may have."""
    ranked = [form for form, _ in ranked_forms(op, ctx)]
    others = [form for form in ranked if not _is_winograd(form)]
    if others == ranked:
        return FormsBySize((ranked[0],))
    if not symbols_of(op.inputs[0].details.plain_dims[2:]):
        return _by_images(op, ctx)
    found = _by_height(op, ctx)
    return found if all(map(_is_winograd, found.forms)) else FormsBySize((others[0],))


def _by_images(op: Convolution, ctx: LowerContext) -> FormsBySize:
    """Return the forms for each possible number of images."""
    g = geometry_of(op)
    least, most = bounds(op.inputs[0].details.plain_dims[0])

    def best(number: int) -> ConvolutionForm:
        return ranked_forms(op, ctx, replace(g, batch=number))[0][0]

    one = best(1)
    if most == 1 or not (_is_winograd(one) or one.name in FEWEST_FIRST):
        return FormsBySize((one,))
    forms, lasts = _steps(best, 1, MAX_IMAGES)
    possible = [
        (form, last)
        for form, last, first in zip(forms, (*lasts, MAX_IMAGES), (1, *(n + 1 for n in lasts)), strict=True)
        if first <= most and (last >= least or form is forms[-1])
    ]  # fmt: skip
    return _listed([f for f, _ in possible], [n * math.prod(g.result) for _, n in possible[:-1]])


def _by_height(op: Convolution, ctx: LowerContext) -> FormsBySize:
    """Return the forms for images of dynamic height and width; other sizes are taken at their minimum."""
    x, y = (tensor.details.plain_dims for tensor in (op.inputs[0], op.outputs[0]))
    symbols = symbols_of(x[2:])
    least, most = IMAGE_SIZES
    least = max(min(max(s.least, least), s.most) for s in symbols)
    most = max(least, min(min(s.most, most) for s in symbols))
    rest = {s.name: max(1, s.least) for s in symbols_of(x)}

    def geometry(number: int) -> ConvolutionGeometry:
        values = rest | {s.name: min(max(s.least, number), s.most) for s in symbols}
        image, result = (tuple(evaluate(size, values) for size in dims) for dims in (x, y))
        return with_images_of(geometry_of(op), image, result)

    forms, lasts = _steps(lambda n: ranked_forms(op, ctx, geometry(n))[0][0], least, most)
    return _listed(forms, [g.batch * math.prod(g.result) for g in map(geometry, lasts)])


def _steps(best: Best, least: int, most: int) -> tuple[list[ConvolutionForm], list[int]]:
    """The best forms from the least number to the most, and the last number of each but the last form.

    More results never go back to a form for fewer, whatever rounding does to the predictions.
    """
    forms, lasts = [best(least)], []
    for last in _changes(best, least, most):
        form = best(last + 1)
        if form.name in FEWEST_FIRST and _rank(form) > _rank(forms[-1]):
            forms.append(form)
            lasts.append(last)
    return forms, lasts


def _changes(best: Best, low: int, high: int) -> list[int]:
    """Numbers before `high` whose best form is another than that of the next."""
    if best(low) is best(high):
        return []
    if high - low == 1:
        return [low]
    middle = (low + high) // 2
    return [*_changes(best, low, middle), *_changes(best, middle, high)]


def _listed(forms: list[ConvolutionForm], few: list[int]) -> FormsBySize:
    return FormsBySize(tuple(forms[::-1]), tuple(few[::-1]))


def _rank(form: ConvolutionForm) -> int:
    return FEWEST_FIRST.index(form.name) if form.name in FEWEST_FIRST else len(FEWEST_FIRST)


def _is_winograd(form: ConvolutionForm) -> bool:
    return form.name.startswith("winograd")
