"""The paused collector: off inside, as before outside."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from graphc.base.collector import loading_modules, paused_collector


@pytest.fixture(autouse=True)
def nothing_is_frozen() -> Iterator[None]:
    """Undo freezing: the suite freezes what it has collected."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_it_is_off_inside_and_on_again_after_errors() -> None:
    assert gc.isenabled()
    with pytest.raises(KeyError), paused_collector():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


@paused_collector()
def enabled_inside() -> bool:
    return gc.isenabled()


def test_it_is_a_decorator_of_functions_that_run_more_than_once() -> None:
    assert [enabled_inside() for _ in range(2)] == [False, False]
    assert gc.isenabled()


def generation_of(thing: object) -> int | None:
    held = [n for n in range(3) if any(x is thing for x in gc.get_objects(generation=n))]
    return held[0] if held else None


def test_what_modules_are_made_of_is_old_at_once_and_stays_collectable() -> None:
    with loading_modules():
        made: list[object] = [object()]
        assert generation_of(made) == 0
    assert generation_of(made) == 2
    assert gc.get_freeze_count() == 0
    with paused_collector():
        other: list[object] = [object()]
        assert generation_of(other) == 0


def test_what_the_program_froze_stays_frozen() -> None:
    kept: list[object] = [object()]
    gc.freeze()
    try:
        with loading_modules():
            made: list[object] = [object()]
        assert gc.get_freeze_count() > 0
        assert generation_of(kept) is None  # in no generation: permanent
        assert generation_of(made) == 0
    finally:
        gc.unfreeze()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
