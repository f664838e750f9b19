"""Convolutions as nests: every step keeps the result, for every layout of what is copied of an image."""

from __future__ import annotations

import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.nest.nest import contraction
from graphc.graph_ir.nest.schedule_text import apply, steps_of
from graphc.graph_ir.schedule.convolution_steps import convolution_steps
from graphc.graph_ir.schedule.cost import MatmulBlocking
from graphc.targets.isa import GemmTile
from support.convolution_nests import PADDED, TARGET, check, problem

STRIDED = ConvolutionGeometry(1, 1, 3, 8, (9, 7), (4, 3), (3, 2), (2, 2), (1, 2))
GROUPS = ConvolutionGeometry(1, 3, 2, 9, (4, 5), (4, 5), (3, 3), before=(1, 1))
SINGLE = ConvolutionGeometry(2, 2, 4, 9, (6, 5), (6, 5))
INSIDE = ConvolutionGeometry(1, 1, 4, 9, (6, 5), (4, 3), (3, 3))
BANDS = [
    *[("rows", g, False) for g in (PADDED, STRIDED, GROUPS, SINGLE)],
    ("rows", SINGLE, True),
    ("image", INSIDE, False),
    ("blocks", PADDED, False),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("band", "g", "joined"), BANDS, ids=str)
@pytest.mark.parametrize(("rows", "k_block"), [(2, 1000), (3, 4)])
def test_every_step_keeps_the_result(
    band: str, g: ConvolutionGeometry, joined: bool, rows: int, k_block: int
) -> None:
    """Also where all pixels of a copy are the rows of one tile."""
    p = problem(g, band)
    blocking = MatmulBlocking(GemmTile(2, 1), rows, k_block, 2)
    nest = contraction(p)
    check(nest, g, band)
    for _, after in steps_of(nest, convolution_steps(p, blocking, TARGET, joined)):
        check(after, g, band)


@pytest.mark.parametrize("order", ["m n1 ky kx k", "m n1 ky k kx", "m n1 kx ky k"])
def test_register_tiles_sum_in_any_order(order: str) -> None:
    """Loops that no tile has room for become several tiles."""
    steps = BEFORE.replace("m n1 ky kx k", order) + "stage A at y0 as band[iy,ix,k]; "
    steps += f"tensorize 2x1 over {order}"
    check(apply(contraction(problem(PADDED, "rows")), steps), PADDED, "rows")


def test_a_band_and_a_blocking_are_a_schedule_one_can_read() -> None:
    blocking = MatmulBlocking(GemmTile(4, 1), 2, 1000, 1)
    assert convolution_steps(problem(PADDED, "rows"), blocking, TARGET, False) == (
        "split n 8; split y 2; reorder b0 b1 y0 n0 y1 m n1 ky kx k; stage A at y0 as band[iy,ix,k]; "
        "tensorize 4x1 over m n1 ky kx k"
    )


BEFORE = "split n 8; split y 2; reorder b0 b1 y0 n0 y1 m n1 ky kx k; "
REFUSED = {
    "tensorize 2x1 over m n1 ky kx k": "an image with padding must be staged first",
    "stage A at y0 as band": "it must be band[iy,ix,k] for this operand, got band",
    "stage A at y0 as band[iy,ix]": "it must be band[iy,ix,k] for this operand, got band[iy,ix]",
    "stage A at y0 as band[y,m,k]": "it must be band[iy,ix,k] for this operand, got band[y,m,k]",
    "stage B at y0 as panel[n1,k]": "it must be panel for this operand, got panel[n1,k]",
    "stage C at y0 as sums": "y1 must be outside",
}


@pytest.mark.parametrize("step", REFUSED)
def test_steps_that_do_not_fit_an_image_say_why(step: str) -> None:
    with pytest.raises(UserError) as caught:
        apply(contraction(problem(PADDED, "rows")), BEFORE + step)
    assert REFUSED[step] in str(caught.value)
