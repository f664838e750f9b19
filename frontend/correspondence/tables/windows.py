"""Convolutions, pools and resampling."""

from __future__ import annotations

from ...adaptive_pool import adaptive_pool
from ...axis_layout import relaid
from ..compositions import windows as means
from ..row import Means, Op


def _each(names: str, rest: str) -> str:
    """A cell of TVM's operators for one, two and three spatial axes."""
    types = (name.format(n) for name in names.split("/") for n in (1, 2, 3))
    return f"{'/'.join(dict.fromkeys(types))}{rest}"


ROWS = (
    Op(
        "convolution",
        onnx="Conv(X, W, B?) by convolution",
        tvm=_each(
            "nn_conv{}d/conv{}d/nn_contrib_conv2d_NCHWc/nn_contrib_depthwise_conv2d_NCHWc"
            "/contrib_conv2d_NCHWc/_contrib_conv2d_NCHWc",
            "(data, weight, bias?) by convolution",
        ),
    ),
    Op(
        "convolution_transpose",
        onnx="ConvTranspose(X, W, B?) by convolution",
        tvm=_each(
            "nn_conv{}d_transpose/conv{}d_transpose",
            "(data, weight, bias?) by convolution_transpose",
        ),
    ),
    Op(
        "max_pool",
        onnx="MaxPool(X) by pool",
        tvm=_each("nn_max_pool{}d/max_pool{}d", "(data) by pool"),
    ),
    Op("min_pool", onnx="Neg(MaxPool(Neg(X))) by min_pool write only"),
    Op(
        "avg_pool",
        onnx="AveragePool(X) by pool",
        tvm=_each("nn_avg_pool{}d/avg_pool{}d", "(data) by pool"),
    ),
    Op("lp_pool", onnx="LpPool(X) by pool"),
    Op(
        "lrn",
        onnx="LRN(X | size, alpha, beta, bias=k) by lrn",
        tvm="nn_lrn/lrn(data | size?5, axis?1, bias=k?2.0, alpha?1e-4, beta?0.75)",
    ),
    Op(
        "resize",
        onnx="Resize(X, roi?, scales?, sizes?) by resize",
        tvm=(
            "image_resize2d(data | size, method, coordinate_transformation_mode) by resize",
            "nn_upsampling/upsampling(data | scale_h, scale_w, method) by upsampling read only",
        ),
    ),
    Means(
        means.global_average_pool,
        onnx="GlobalAveragePool(X)",
        ge="GlobalAveragePool(x)",
        tvm=_each("nn_global_avg_pool{}d/global_avg_pool{}d", "(data) by global_pool"),
    ),
    Means(
        means.global_max_pool,
        onnx="GlobalMaxPool(X)",
        tvm=_each("nn_global_max_pool{}d/global_max_pool{}d", "(data) by global_pool"),
    ),
    Means(
        adaptive_pool,
        tvm=_each(
            "nn_adaptive_avg_pool{}d/nn_adaptive_max_pool{}d/adaptive_avg_pool{}d/adaptive_max_pool{}d",
            "(data | output_size=wanted) by adaptive",
        ),
    ),
    Means(
        relaid,
        tvm="layout_transform/__layout_transform__(data | src_layout=source, dst_layout=target) by layout_transform",
    ),
    Means(means.global_lp_pool, onnx="GlobalLpPool(X | p)"),
)
