"""Values of packed weights, bit by bit those of the package gguf."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from graphc.base.block_types import BLOCK_TYPES, BlockType


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_values_are_those_of_the_package_gguf(kind: BlockType) -> None:
    """Any bytes have the same values, infinite scales and NaN among them."""
    rng = np.random.default_rng(kind.code)
    raw = rng.integers(0, 256, (37, 5 * kind.size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        wanted = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(kind.code))
    found = kind.values(raw)
    assert found.dtype == np.float32 and found.shape == (37, 5 * kind.elements)
    same = (found.view(np.int32) == wanted.view(np.int32)) | (np.isnan(found) & np.isnan(wanted))
    assert same.all()


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_rows_say_sizes_and_ranges_of_levels(kind: BlockType) -> None:
    known = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind.code)]
    assert (kind.elements, kind.size) == known
    raw = np.random.default_rng(0).integers(0, 256, (32, kind.size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        levels, scale = kind.levels.read(raw), kind.scale.read(raw)
    assert scale.shape == (32, kind.groups) and kind.group * kind.groups == kind.elements
    assert int(levels.max()) < (128 if levels.dtype == np.int8 else 1 << kind.bits)
    assert 1 << kind.bits == kind.level_count or kind.book


def test_parts_of_long_tensors_are_split_alike() -> None:
    kind = BLOCK_TYPES[0]
    raw = np.random.default_rng(0).integers(0, 256, (3, 1500 * kind.size), dtype=np.uint8)
    with np.errstate(all="ignore"):
        whole, parts = kind.values(raw), [kind.values(row[None]) for row in raw]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
