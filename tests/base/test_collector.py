"""The paused collector: off inside, as before outside."""

from __future__ import annotations

import gc

import pytest

from graphc.base.collector import paused_collector


def test_it_is_off_inside_and_on_again_after_errors() -> None:
    assert gc.isenabled()
    with pytest.raises(KeyError), paused_collector():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
