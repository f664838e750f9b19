"""Convolutions, pools and resampling."""

from __future__ import annotations

from ..compositions import windows as means
from ..row import Means, Op

ROWS = (
    Op("convolution", onnx="Conv(X, W, B?) by convolution"),
    Op("convolution_transpose", onnx="ConvTranspose(X, W, B?) by convolution"),
    Op("max_pool", onnx="MaxPool(X) by pool"),
    Op("min_pool", onnx="Neg(MaxPool(Neg(X))) by min_pool write only"),
    Op("avg_pool", onnx="AveragePool(X) by pool"),
    Op("lp_pool", onnx="LpPool(X) by pool"),
    Op("lrn", onnx="LRN(X | size, alpha, beta, bias=k) by lrn"),
    Op("resize", onnx="Resize(X, roi?, scales?, sizes?) by resize"),
    Means(means.global_average_pool, onnx="GlobalAveragePool(X)", ge="GlobalAveragePool(x)"),
    Means(means.global_max_pool, onnx="GlobalMaxPool(X)"),
    Means(means.global_lp_pool, onnx="GlobalLpPool(X | p)"),
)
