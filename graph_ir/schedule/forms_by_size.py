"""Which forms a convolution of open sizes runs as: one for few pixels of results, and one for more.

A Winograd form is chosen only where such a form is best at every size: the weights of all others are smaller, and with
few pixels reading weights is what takes the time.
"""

from __future__ import annotations

from collections.abc import Callable

from ...base.dims import evaluate, symbols_of
from ...base.records import dataclass
from ..ops.convolution import Convolution
from .context import LowerContext
from .convolution_forms import ConvolutionForm, ranked_forms
from .convolution_geometry import ConvolutionGeometry
from .convolution_sizes import geometry_of, with_images_of

MOST_IMAGES = 64
"""The number of images from which on the best form is no other any more."""

IMAGE_SIZES = (128, 512)
"""Heights and widths that images have where nothing bounds them; smaller ones run in the form for these."""


@dataclass(frozen=True)
class FormsBySize:
    """`many`, the form; or up to `few` pixels of results another one, `below`."""

    many: ConvolutionForm
    below: ConvolutionForm | None = None
    few: int = 0


def forms_by_size(op: Convolution, ctx: LowerContext) -> FormsBySize | None:
    """The Winograd forms of a convolution of open sizes; None where one of another kind is better at some of them."""
    geometry, (least, most) = _by_number(op)

    def best(number: int) -> ConvolutionForm | None:
        ranked = ranked_forms(op, ctx, geometry(number))
        return ranked[0][0] if ranked and ranked[0][0].name.startswith("winograd") else None

    many, below = best(most), best(least)
    if many is None or below is None:
        return None
    if many is below:
        return FormsBySize(many)
    low, high = least, most  # the last number with the form of the least one, and one beyond it
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if best(middle) is below else (low, middle)
    last = geometry(low)
    return FormsBySize(many, below, last.batch * last.result[0] * last.result[1])


def _by_number(op: Convolution) -> tuple[Callable[[int], ConvolutionGeometry], tuple[int, int]]:
    """The geometry for a number of images, or for their height and width where these are open; and its ends."""
    dims = op.inputs[0].details.plain_dims
    spatial = symbols_of(dims[2:])
    symbols = spatial or symbols_of(dims[:1])
    least, most = IMAGE_SIZES if spatial else (1, MOST_IMAGES)
    least = max(min(max(s.least, least), s.most) for s in symbols)
    most = max(least, min(min(s.most, most) for s in symbols))
    rest = {s.name: max(1, s.least) for s in symbols_of(dims)}

    def geometry(number: int) -> ConvolutionGeometry:
        values = rest | {s.name: min(max(s.least, number), s.most) for s in symbols}
        x, y = (
            tuple(evaluate(size, values) for size in tensor.details.plain_dims)
            for tensor in (op.inputs[0], op.outputs[0])
        )
        return with_images_of(geometry_of(op), x, y)

    return geometry, (least, most)
