"""The comparison of results of PyTorch's operators."""

from __future__ import annotations

import types

import numpy as np
import pytest

from graphc.bench import torch_ops

torch = pytest.importorskip("torch")


def test_16_bits_may_be_as_far_off_as_those_of_pytorch() -> None:
    exact = [torch.tensor([10.0, -20.0])]
    theirs = [torch.tensor([9.0, -20.0], dtype=torch.float16)]
    for mine, word in (([10.5, -21], "right"), ([8, -20], "wrong"), ([10.5, np.nan], "wrong")):
        found = [np.array(mine, np.float16)]
        assert torch_ops._compared(found, theirs, exact)[0] == word
        assert torch_ops._compared(found, theirs, theirs)[0] == "wrong"


def test_what_overflows_in_pytorch_excuses_no_other_element() -> None:
    """The largest error of PyTorch's that counts is a finite one; its own elements are right."""
    exact, theirs = (
        [torch.tensor(values, dtype=dtype)]
        for values, dtype in (([7e4, 1.0, 3.0], torch.float32), ([7e4, 1, 3], torch.float16))
    )
    for mine, word in (([7e4, 1, 3], "right"), ([7e4, 2, 3], "wrong"), ([1e4, 1, 3], "wrong")):
        with np.errstate(over="ignore"):
            found = [np.array(mine, np.float16)]
        assert torch_ops._compared(found, theirs, exact)[0] == word


def test_integers_are_equal_beyond_the_precision_of_floats_too() -> None:
    theirs = [torch.tensor([2**60])]
    for mine, word in ((2**60, "right"), (2**60 + 1, "wrong")):
        assert torch_ops._compared([np.array([mine])], theirs, theirs)[0] == word


def test_indices_are_judged_by_the_elements_they_name() -> None:
    x = torch.tensor([[True, False, True]])
    sample = types.SimpleNamespace(input=x, args=(1,), kwargs={})
    for indices, wanted in (([[1, 0, 2]], [[0, 1, 1]]), ([[1, 2, 0]], [[0, 1, 1]])):
        (found,) = torch_ops._looked_up("argsort", sample, [np.array(indices)])
        np.testing.assert_array_equal(found, wanted)
