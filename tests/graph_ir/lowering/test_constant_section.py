"""The constants of a program in memory: aligned, equal ones once, zeros between them."""

from __future__ import annotations

import numpy as np

from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.lowering.constant_section import ConstantSection


def section_of(*arrays: np.ndarray) -> tuple[ConstantSection, list[int]]:
    graph = Graph("g")
    tensors = [graph.make_constant(array) for array in arrays]
    section = ConstantSection(graph)
    return section, [section.offsets[tensor] for tensor in tensors]


def test_each_starts_on_a_cache_line_with_zeros_before_it() -> None:
    arrays = [np.arange(1, n + 1, dtype=np.float32) for n in (3, 17, 1)]
    section, offsets = section_of(*arrays)
    assert offsets == [0, 64, 192] and section.data.ctypes.data % 64 == 0
    assert section.buffer.shape == section.data.shape == (196,)
    for array, offset in zip(arrays, offsets, strict=True):
        found = section.data[offset : offset + array.nbytes].view(np.float32)
        np.testing.assert_array_equal(found, array)
    assert not section.data[12:64].any() and not section.data[132:192].any()


def test_equal_bytes_are_kept_once_whatever_they_mean() -> None:
    ones = np.ones(1000, np.float32)
    nearly = ones.copy()
    nearly[501] = 2  # not where a sample is taken
    section, offsets = section_of(ones, nearly, ones.copy(), ones.view(np.int32), ones[:10])
    assert offsets[0] == offsets[2] == offsets[3]
    assert len(set(offsets)) == 3 and len(section.data) == offsets[4] + 40


def test_packed_as_the_format_says() -> None:
    graph = Graph("g")
    value = np.arange(5 * 7, dtype=np.float32).reshape(5, 7)
    layout = parse_format("NK4n", "KN")
    tensor = graph.make_constant(value, "w", layout)
    section = ConstantSection(graph)
    assert section.data.tobytes() == layout.pack(value).tobytes()
    assert section.offsets == {tensor: 0}
    assert len(ConstantSection(Graph("empty")).data) == 0
