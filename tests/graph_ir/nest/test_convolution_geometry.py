"""The numbers a convolution is described by."""

from __future__ import annotations

from dataclasses import replace

from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry

PLAIN = ConvolutionGeometry(1, 1, 64, 32, (56, 56), (54, 54), (3, 3))


def test_work() -> None:
    assert PLAIN.terms == 576
    assert PLAIN.multiply_adds == 32 * 54 * 54 * 576
    assert replace(PLAIN, batch=2, groups=3).multiply_adds == 6 * PLAIN.multiply_adds


def test_padding_counts_only_where_a_window_reaches_it() -> None:
    assert not PLAIN.is_padded
    assert replace(PLAIN, before=(1, 0)).is_padded
    assert replace(PLAIN, result=(55, 54)).is_padded, "the last window ends behind the image"
    strided = replace(PLAIN, strides=(2, 2), result=(27, 27))
    assert strided.span(0, 27) == 55 and not strided.is_padded


def test_text_names_what_is_not_usual() -> None:
    assert str(PLAIN) == "c64i56x56o32r54x54k3x3"
    other = replace(PLAIN, batch=2, groups=4, strides=(2, 1), dilations=(1, 2), before=(0, 1))
    assert str(other) == "b2g4c64i56x56o32r54x54k3x3s2x1d1x2p0x1"
