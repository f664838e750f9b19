"""Names of element types: no two types share one, and what is written is read."""

from __future__ import annotations

import pytest
from onnx import TensorProto

from graphc.base.dtypes import BF16, BOOL, F32, S64
from graphc.frontend.correspondence.element_types import element_types, written_names


@pytest.mark.parametrize("name", ["onnx", "ge", "tvm", "hlo", "pnnx-suffix", "pnnx"])
def test_what_is_written_is_read(name: str) -> None:
    types = element_types(name)
    assert len(set(types.values())) in (10, 13, 15, 20, 23)
    assert all(types[word] is dtype for dtype, word in written_names(types).items())


def test_the_first_of_several_names_is_written() -> None:
    assert written_names(element_types("tvm"))[BOOL] == "bool"
    assert written_names(element_types("pnnx"))[S64] == "torch.long"
    assert element_types("ge")["DT_BF16"] is element_types("ge")["27"] is BF16


def test_numbers_of_onnx_are_those_of_its_header() -> None:
    types = element_types("onnx")
    assert (types[str(TensorProto.FLOAT)], types[str(TensorProto.BOOL)]) == (F32, BOOL)
