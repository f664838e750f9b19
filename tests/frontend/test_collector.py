import gc

import pytest

from graphc.frontend.collector import collector_paused


@collector_paused()
def enabled_inside() -> bool:
    return gc.isenabled()


def test_the_collector_rests_inside_and_is_as_before_after() -> None:
    assert gc.isenabled()
    for _ in range(2):
        assert not enabled_inside()
        assert gc.isenabled()
    with collector_paused():
        assert not enabled_inside()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_inside_ends_the_pause() -> None:
    with pytest.raises(KeyError), collector_paused():
        raise KeyError
    assert gc.isenabled()
