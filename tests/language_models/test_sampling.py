"""The choice of tokens: the likeliest, or draws from the part of the distribution that is left."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.language_models import Sampling
from graphc.language_models.sampling import Sampler

SHARES = np.array([0.5, 0.05, 0.3, 0.15])
LOGITS = np.log(SHARES).astype(np.float32)


def drawn(count: int = 4000, **how: Any) -> Counter[int]:
    sampler = Sampler(Sampling(seed=3, **how))
    return Counter(sampler.choose(LOGITS, ()) for _ in range(count))


def test_no_temperature_takes_the_first_of_the_likeliest() -> None:
    assert Sampler(Sampling()).choose(np.array([1, 3, 3, 2], np.float32), ()) == 1


def test_draws_follow_the_probabilities() -> None:
    found = drawn(temperature=1.0)
    assert all(abs(found[i] / 4000 - share) < 0.03 for i, share in enumerate(SHARES))
    flat = SHARES**0.5 / (SHARES**0.5).sum()
    found = drawn(temperature=2.0)
    assert all(abs(found[i] / 4000 - share) < 0.03 for i, share in enumerate(flat))


@pytest.mark.parametrize(
    ("how", "kept"),
    [
        ({"top_k": 1}, {0}),
        ({"top_k": 3}, {0, 2, 3}),
        ({"top_k": 9}, {0, 1, 2, 3}),
        ({"top_p": 0.5}, {0}),
        ({"top_p": 0.51}, {0, 2}),
        ({"min_p": 0.25}, {0, 2, 3}),
        ({"min_p": 1.0}, {0}),
        ({"top_k": 3, "top_p": 0.6}, {0, 2}),
    ],
)
def test_parts_of_the_distribution(how: dict[str, Any], kept: set[int]) -> None:
    assert set(drawn(500, temperature=1.0, **how)) == kept


def test_a_seed_repeats_and_tokens_seen_become_less_likely() -> None:
    one, two = (Sampler(Sampling(temperature=1.0, seed=5)) for _ in range(2))
    assert [one.choose(LOGITS, ()) for _ in range(50)] == [
        two.choose(LOGITS, ()) for _ in range(50)
    ]
    logits = np.array([2.0, 1.5, -1.0], np.float32)
    assert Sampler(Sampling(repetition_penalty=1.5)).choose(logits, [0, 0]) == 1
    assert Sampler(Sampling(repetition_penalty=1.5)).choose(-logits, [2]) == 2
    np.testing.assert_array_equal(logits, [2.0, 1.5, -1.0])


@pytest.mark.parametrize(
    "how",
    [
        {"temperature": -1.0},
        {"top_k": -1},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"min_p": 2.0},
        {"repetition_penalty": 0.0},
    ],
)
def test_numbers_outside_their_range(how: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(how))} must be"):
        Sampler(Sampling(**how))


@pytest.mark.parametrize("temperature", [1e-320, 1e-40, 1e300])
def test_extreme_temperatures(temperature: float) -> None:
    kept = {0, 1, 2, 3} if temperature > 1 else {0}
    assert set(drawn(200, temperature=temperature)) == kept


@pytest.mark.parametrize("penalty", [1e-320, 1e-40, 1e40, 1e300])
def test_extreme_penalties_stay_finite(penalty: float) -> None:
    logits = np.array([3.0, 2.0, 0.0, -1.0], np.float32)
    for temperature in (0.0, 1.0):
        sampler = Sampler(Sampling(temperature, repetition_penalty=penalty, seed=0))
        assert sampler.choose(logits, [0, 2, 3]) == (0 if penalty < 1 else 1)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers(value: float, temperature: float) -> None:
    logits = np.array([1, value, 2], np.float32)
    with pytest.raises(UserError, match="logits must be finite numbers, got (nan|inf)"):
        Sampler(Sampling(temperature)).choose(logits, ())
