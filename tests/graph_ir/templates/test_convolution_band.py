"""Bands: the steps of a sum cover each term once, at the offset the band assigns to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.schedule.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.templates.convolution_band import BANDS, ImageOperand
from graphc.tensor_ir.nodes import Buffer

GEOMETRY = ConvolutionGeometry(1, 1, 5, 8, (9, 9), (7, 7), (3, 3))
WHOLE = [band for band in BANDS if band != "blocks"]
"""Bands of images without blocks of channels."""
DILATED = replace(GEOMETRY, result=(5, 5), dilations=(2, 2))
SINGLE = replace(GEOMETRY, result=(5, 5), kernel=(1, 1), strides=(2, 2))


def operand(g: ConvolutionGeometry, band: str) -> ImageOperand:
    height, width = g.image
    buffer = Buffer("x", F32, (g.channels * height * width,))
    if band == "planes":
        return ImageOperand(buffer, g.channels * height * width, width, 1, height * width)
    return ImageOperand(buffer, g.channels * height * width, width * g.channels, g.channels, 1)


def offset(g: ConvolutionGeometry, band: str, i: int, j: int, c: int) -> int:
    """Return the offset of term (i, j, c) of a pixel, relative to the pixel."""
    if band == "im2col":
        return (i * g.kernel[1] + j) * g.channels + c
    columns = g.image[1] if band == "image" else g.span(1, g.result[1])
    y, x = i * g.dilations[0], j * g.dilations[1]
    if band == "planes":
        return (y * g.channels + c) * columns + x
    return (y * columns + x) * g.channels + c


@pytest.mark.parametrize("band", WHOLE)
@pytest.mark.parametrize("geometry", [GEOMETRY, DILATED, SINGLE], ids=str)
@pytest.mark.parametrize("k_block", [1, 4, 5, 10, 15, 30, 45, 1000])
def test_steps_cover_each_term_once(band: str, geometry: ConvolutionGeometry, k_block: int) -> None:
    made = BANDS[band](geometry, operand(geometry, band), 3)
    found: dict[int, int] = {}
    for step in made.steps(k_block):
        for run in range(step.batch):
            for k in range(step.k):
                row = step.b + run * step.b_batch + k
                assert row not in found
                found[row] = step.a + run * step.a_batch + k * made.term
    rows, columns = geometry.kernel
    order = [
        (i, j, c)
        for i in range(rows)
        for outer in range(geometry.channels if band == "planes" else columns)
        for inner in range(columns if band == "planes" else geometry.channels)
        for j, c in [(inner, outer) if band == "planes" else (outer, inner)]
    ]
    wanted = {row: offset(geometry, band, *term) for row, term in enumerate(order)}
    assert found == wanted


def test_steps_are_one_where_the_terms_have_equal_strides() -> None:
    for band in WHOLE:
        assert len(BANDS[band](GEOMETRY, operand(GEOMETRY, band), 7).steps(10**6)) == 1


def test_copies_hold_what_the_rows_need() -> None:
    sizes = {
        band: made.scratch.shape[0] if made.scratch else 0
        for band in WHOLE
        for made in [BANDS[band](GEOMETRY, operand(GEOMETRY, band), 2)]
    }
    assert sizes == {"image": 0, "rows": 4 * 9 * 5, "planes": 4 * 9 * 5, "im2col": 2 * 7 * 45}


@pytest.mark.parametrize("k_block", [1, 8, 1000])
def test_steps_of_blocks_cover_each_term_once(k_block: int) -> None:
    g, block = replace(DILATED, channels=12), 4
    x = ImageOperand(Buffer("x", F32, (12 * 81,)), 12 * 81, 9 * block, block, 81, block)
    found: dict[int, int] = {}
    for step in BANDS["blocks"](g, x, 3).steps(k_block):
        for run in range(step.batch):
            for k in range(step.k):
                found[step.b + run * step.b_batch + k] = step.a + run * step.a_batch + k
    columns = g.span(1, g.result[1])
    terms = [(b, i, j, c) for b in range(3) for i in range(3) for j in range(3) for c in range(4)]
    wanted = [((2 * i * 3 + b) * columns + 2 * j) * block + c for b, i, j, c in terms]
    assert found == dict(enumerate(wanted))
