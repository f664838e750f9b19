"""NonMaxSuppression, n-grams and optimisers beside plain NumPy; their node cases: test_backend_cases."""

from __future__ import annotations

import numpy as np

from graphc.frontend.onnx.boxes import kept_boxes


def test_the_best_boxes_are_kept(rng: np.random.Generator) -> None:
    corners = np.sort(rng.random((40, 2, 2)), axis=1).reshape(40, 4)
    scores = rng.random(40)
    kept = kept_boxes(corners, scores, 40, 0.3, None)
    assert kept[0] == int(np.argmax(scores)) and 1 < len(kept) < 40
    assert sorted(kept, key=lambda i: -scores[i]) == kept
