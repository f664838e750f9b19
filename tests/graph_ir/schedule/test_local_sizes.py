"""Variables of a kernel for dynamic sizes: names that no size of the model has."""

from __future__ import annotations

from graphc.base.dims import Symbol, ceil_quotient, size
from graphc.graph_ir.nest.convolution_geometry import ConvolutionGeometry
from graphc.graph_ir.schedule.local_sizes import LocalSizes, localized


def test_names_are_new_and_numbers_stay() -> None:
    rows = size(Symbol("rows"))
    whole = ConvolutionGeometry(1, 1, 8, 8, (rows, 9), (ceil_quotient(rows, 2), 5), strides=(2, 2))
    sizes = LocalSizes((rows,))
    local = localized(whole, sizes)
    assert (local.image[1], local.result[1]) == (9, 5)
    assert [str(one) for one in (local.image[0], local.result[0])] == ["image_rows", "rows_"]
    assert [let.var.name for let in sizes.lets] == ["size_image_rows", "size_rows_"]
