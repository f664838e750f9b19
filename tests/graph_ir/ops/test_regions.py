"""align_regions: what is refused; tests of templates and of ONNX's nodes compare its values."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.check_op import make_op


@pytest.mark.parametrize(
    ("dims", "dtype", "message"),
    [
        (((2, 6, 5), (3, 4), (3,)), np.float32, "images must be"),
        (((2, 6, 5, 1), (3, 5), (3,)), np.float32, "images must be"),
        (((2, 6, 5, 1), (3, 4), (2,)), np.float32, "owners must be s64"),
        (((2, 6, 5, 1), (3, 4), (3,)), np.float16, "images and boxes must both be f32 or f64"),
    ],
)
def test_what_is_refused(
    dims: tuple[tuple[int, ...], ...], dtype: type[np.generic], message: str
) -> None:
    x, boxes, owners = (np.zeros(shape, dtype) for shape in dims)
    with pytest.raises(UserError, match=message):
        make_op("align_regions", [x, boxes, owners.astype(np.int64)], {"cells": (2, 2)})
