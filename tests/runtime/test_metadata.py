"""The metadata of artifacts: what a forged header may say of open and counted sizes."""

from __future__ import annotations

from typing import Any

import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.runtime.metadata import Metadata, TensorSpec, metadata_from_json

ROWS, FOUND = Symbol("N", 1, 64), Symbol("found", 0, 128)
GOOD = Metadata(
    "m",
    (TensorSpec("x", F32, (size(ROWS), 2)),),
    (TensorSpec("y", F32, (size(FOUND), 2)), TensorSpec("n", F32, (1,))),
    0,
    "avx2",
    sizes=(ROWS,),
    counts=((FOUND, size(ROWS) * 2),),
)


def count(name: str, *limit: Any) -> dict[str, Any]:
    return {"name": name, "least": 0, "most": 9, "limit": list(limit)}


def test_counted_sizes_are_read_back_with_their_limits() -> None:
    read = metadata_from_json(GOOD.to_json(), "m.gcm")
    assert read == GOOD
    assert [str(spec.shape[0]) for spec in read.buffers] == ["2*N", "1"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sizes", [count("N"), count("N")], "sizes[1]: names of sizes must differ, got 'N' twice"),
        (
            "counts",
            [count("found", "found")],
            "counts[0] 'limit' must be expressions of the model's sizes, got ['found']",
        ),
        (
            "counts",
            [count("found", "kept"), count("kept", "found")],
            "counts[0] 'limit' must be expressions of the model's sizes, got ['kept']",
        ),
        (
            "counts",
            [count("found", 7), count("found", 7)],
            "counts[1]: names of sizes must differ, got 'found' twice",
        ),
        ("counts", [count("N", 7)], "counts[0]: names of sizes must differ, got 'N' twice"),
        ("counts", [count("found", 7, 8)], "counts[0]: there must be one limit"),
    ],
)
def test_sizes_that_cannot_be(key: str, value: list[Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        metadata_from_json(GOOD.to_json() | {key: value}, "m.gcm")
    assert str(caught.value) == "m.gcm: header " + message
