"""A decoder's step over a cache of dynamic length: the bits of the step compiled for that length."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc import CompiledModel
from graphc.base.errors import UserError
from support.decoder_step import feeds, step

LENGTHS = (1, 2, 126, 127, 128, 129, 300)
"""Lengths of the cache: sums over keys are in blocks of 128."""


@pytest.fixture(scope="module")
def served() -> CompiledModel:
    return graphc.compile(step(), inputs={"pk": "f32[1,2,P=1..511,16]"})


@pytest.mark.exhaustive
@pytest.mark.parametrize("length", LENGTHS)
def test_every_length_has_the_bits_of_its_static_model(served: CompiledModel, length: int) -> None:
    given = feeds(length)
    alone = graphc.compile(step(), inputs={"pk": f"f32[1,2,{length},16]"})
    for got, wanted in zip(served(**given), alone(**given), strict=True):
        assert got.tobytes() == wanted.tobytes()


def test_against_onnx_runtime(served: CompiledModel) -> None:
    ort = pytest.importorskip("onnxruntime")
    for window, model in ((-1, served), (5, graphc.compile(step(5)))):
        session = ort.InferenceSession(step(window).SerializeToString())
        for length in (1, 4, 5, 6, 200):
            for got, wanted in zip(
                model(**feeds(length)), session.run(None, feeds(length)), strict=True
            ):
                np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_the_number_of_keys_must_be_that_of_the_cache(served: CompiledModel) -> None:
    given = feeds(7) | {"last": np.array([6], np.int32)}
    rule = r"'last' must be the number of keys less one, P\+1 - 1, for every sentence"
    with pytest.raises(UserError, match=rule):
        served(**given)
