"""Aligned arrays, addresses and the frames that concurrent calls use."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.runtime.memory import (
    FrameList,
    data_address,
    output_allocator,
)


def test_data_address() -> None:
    array = np.arange(24, dtype=np.int16).reshape(4, 6)
    read_only = array.view()
    read_only.flags.writeable = False
    for view in (array, array[1:], array.T, array[::-1], array[2, 3], np.float64(1), array[:0]):
        view = np.asarray(view)
        assert data_address(view) == view.ctypes.data
    assert data_address(read_only) == array.ctypes.data


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 2049, 100_003])
def test_output_allocator(size: int) -> None:
    allocate = output_allocator((size,), np.dtype(np.float32))
    first, second = allocate(), allocate()
    assert first.shape == second.shape == (size,)
    assert not np.may_share_memory(first, second)
    if size >= 2048:
        assert first.ctypes.data % 64 == 0


def test_frames_are_reused_and_never_shared() -> None:
    frames = FrameList("m", 2, 1)
    first, second = frames.new(100), frames.new(100)
    assert first.arena.ctypes.data % 64 == 0
    assert first.arena.nbytes >= 100
    assert not np.may_share_memory(first.arena, second.arena)
    frames.append(first)
    assert frames.pop() is first
    with pytest.raises(IndexError):
        frames.pop()


def test_an_arena_without_bytes_still_has_an_address() -> None:
    assert FrameList("m", 0, 0).new(0).pointers[2].value


def test_an_arena_beyond_memory() -> None:
    with pytest.raises(UserError) as caught:
        FrameList("m", 1, 1).new(1 << 47)
    assert str(caught.value) == (
        f"model 'm': no memory for the {1 << 47} bytes of scratch memory one call needs"
    )
