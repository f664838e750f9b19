"""Keys of every type are in the order of the values."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import BOOL, USUAL, DType
from graphc.graph_ir.templates.sort_keys import is_exact, key_kind, key_of, value_of
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Buffer, Module


def edges(dtype: DType) -> np.ndarray:
    """Values in ascending order."""
    if dtype == BOOL:
        return np.array([False, True])
    if dtype.is_float:
        found = [-np.inf, -3.5, -1e-7, 0.0, 1e-7, 1.0, 1000.0, np.inf, np.nan]
        return np.array(found).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return np.unique(np.array([info.min, 0, 1, 100, info.max], dtype.numpy))


@pytest.mark.parametrize("dtype", USUAL, ids=str)
@pytest.mark.parametrize("largest", [False, True])
def test_keys_are_in_order(dtype: DType, largest: bool) -> None:
    value, kind = edges(dtype), key_kind(dtype)
    x, y = Buffer("x", dtype, value.shape), Buffer("y", kind.dtype, value.shape)
    b = t.LoopBuilder(("x", "y"))
    with b.loop("i", 0, value.size) as i:
        wide = t.cast(x[i], dtype.accumulator)
        b.store(y, (i,), key_of(b, wide, kind, largest))
    keys = np.zeros(value.shape, kind.dtype.numpy)
    interpreter.run(Module((b.function("keys", (x, y)),)), "keys", [value, keys])
    found = [int(key) for key in (keys[::-1] if largest else keys)]
    assert found == sorted(set(found))
    digits = [key >> kind.low for key in found]
    assert len(set(digits)) == len(found), "the bits below the lowest digit say nothing more"
    assert max(digits) >> (kind.high - kind.low) in (0, (1 << (kind.dtype.bits - kind.high)) - 1)


@pytest.mark.parametrize("dtype", USUAL, ids=str)
@pytest.mark.parametrize("largest", [False, True])
def test_keys_give_values_back(dtype: DType, largest: bool) -> None:
    """The value of each exact key is the element, bit for bit; keys of zeros and NaN are not exact."""
    value, kind = edges(dtype), key_kind(dtype)
    x, y = (Buffer(name, dtype, value.shape) for name in "xy")
    exact = Buffer("exact", BOOL, value.shape)
    b = t.LoopBuilder(("x", "y", "exact"))
    with b.loop("i", 0, value.size) as i:
        wide = t.cast(x[i], dtype.accumulator)
        key = b.let("key", key_of(b, wide, kind, largest))
        b.store(y, (i,), value_of(b, key, kind, largest))
        found = is_exact(key, kind, largest)
        b.store(exact, (i,), t.const(True, BOOL) if found is None else found)
    back, flags = np.zeros_like(value), np.zeros(value.shape, np.bool_)
    interpreter.run(Module((b.function("keys", (x, y, exact)),)), "keys", [value, back, flags])
    assert back[flags].tobytes() == value[flags].tobytes()
    doubtful = (value == 0) | (value != value) if dtype.is_float else np.zeros(value.shape, bool)
    np.testing.assert_array_equal(flags, ~doubtful)
