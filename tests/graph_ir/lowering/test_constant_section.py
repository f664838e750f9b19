"""The constants of a program in memory: aligned, equal ones once, zeros between them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from graphc.base.aligned_memory import HUGE_PAGE, HUGE_SHARED_FROM
from graphc.base.pages import PAGE, FilePages
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


def test_weights_of_many_huge_pages_begin_as_in_their_files() -> None:
    large = np.ones((HUGE_SHARED_FROM + 5,), np.uint8)
    section, offsets = section_of(np.ones(3, np.uint8), large, 2 * large, large[:-6])
    assert [x % HUGE_PAGE for x in offsets] == [0, PAGE, PAGE, 2 * PAGE]
    assert (section.data[offsets[2] : offsets[2] + large.size] == 2).all()
    assert not section.data[3 : offsets[1]].any()


def test_pages_of_files_begin_at_a_huge_page(tmp_path: Path) -> None:
    data = np.arange(HUGE_SHARED_FROM, dtype=np.uint32).view(np.uint8)[: HUGE_SHARED_FROM + PAGE]
    path = tmp_path / "weights"
    path.write_bytes(bytes(PAGE) + data.tobytes())
    pages = FilePages(PAGE + data.size)
    assert pages.array.ctypes.data % HUGE_PAGE == 0 and pages.array.size == PAGE + data.size
    with path.open("rb") as file:
        pages.map(PAGE, file.fileno(), PAGE, data.size)
    np.testing.assert_array_equal(pages.array[PAGE:], data)
    assert not pages.array[:PAGE].any()
