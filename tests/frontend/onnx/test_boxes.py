"""NonMaxSuppression, n-grams and optimisers beside plain NumPy; their node cases: test_backend_cases."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.onnx.boxes import kept_boxes


def test_the_best_boxes_are_kept(rng: np.random.Generator) -> None:
    corners = np.sort(rng.random((40, 2, 2)), axis=1).reshape(40, 4)
    scores = rng.random(40)
    kept = kept_boxes(corners, scores, 40, 0.3, None)
    assert kept[0] == int(np.argmax(scores)) and 1 < len(kept) < 40
    assert sorted(kept, key=lambda i: -scores[i]) == kept


def test_boxes_that_only_a_run_knows_are_refused() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        boxes (float[1,6,4] boxes, float[1,2,6] scores, int64[1] most) => (int64[N,3] y) {
            y = NonMaxSuppression (boxes, scores, most)
        }"""
    )
    with pytest.raises(
        UnsupportedError, match=r"boxes \('boxes'\) that depends on the model's inputs"
    ):
        load(model)
