"""suppress_boxes: what the reference keeps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.regions import kept_boxes


def test_the_reference_keeps_the_best() -> None:
    ends = np.array([[0, 0, 2, 2], [0, 0, 2, 2], [5, 5, 6, 6], [0, 0, 2, 1]], np.float32)
    scores = np.array([0.5, 0.75, np.nan, 0.5], np.float32)
    assert kept_boxes(ends, scores, 9, 0.5, None) == [1, 3]
    assert kept_boxes(ends, scores, 9, 0.25, None) == [1]
    assert kept_boxes(ends, scores, 9, 1.0, 0.5) == [1]
    assert kept_boxes(ends, scores, 2, 1.0, None) == [1, 0]


@pytest.mark.parametrize(
    ("index", "details", "message"),
    [
        (0, LogicalTensor(F32, (1, 5, 3)), r"boxes must be \[images, boxes, 4\]"),
        (1, LogicalTensor(F32, (1, 2, 6)), r"boxes must be \[images, boxes, 4\]"),
        (2, LogicalTensor(F32, ()), "the limit s64"),
        (3, LogicalTensor(F32, (1,)), "limits must be scalars"),
    ],
)
def test_what_does_not_fit_is_refused(index: int, details: LogicalTensor, message: str) -> None:
    given = [LogicalTensor(*x) for x in ((F32, (1, 5, 4)), (F32, (1, 2, 5)), (S64, ()), (F32, ()))]
    given[index] = details
    graph = Graph("g")
    inputs = [graph.make_input(one, f"x{i}") for i, one in enumerate(given)]
    with pytest.raises(UserError, match=message):
        graph.make("suppress_boxes", inputs, {"room": (3,)}, "op")
