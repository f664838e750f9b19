"""Runs on memory at addresses, which callers vouch for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from graphc.runtime.executor import CompiledModel
from support.native import add_artifact


def test_what_is_at_the_addresses_is_read_and_written() -> None:
    model = CompiledModel(add_artifact())
    x = np.arange(8 * 13, dtype=np.float32).reshape(8, 13)
    y = np.empty_like(x)
    assert model.takes_addresses
    at = model.sized((x.shape, x.shape))
    assert [spec.shape for spec in at.outputs] == [x.shape]
    model.run_at(at, [x.ctypes.data, x.ctypes.data], [y.ctypes.data])
    assert np.array_equal(y, 4 * x)


def test_conditions_of_the_model_need_arrays() -> None:
    artifact = add_artifact()
    checked = replace(artifact, metadata=replace(artifact.metadata, checks=("y must hold",)))
    assert not CompiledModel(checked).takes_addresses
