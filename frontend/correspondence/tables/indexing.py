"""Elements looked up and replaced by index, and the largest of an axis."""

from __future__ import annotations

from ..compositions import indexing as means
from ..row import Means, Op

ROWS = (
    Op(
        "gather",
        onnx="Gather(data, indices | axis) by gather",
        ge="GatherV2/Gather/GatherV2D(x, indices, axis=axis | batch_dims) by gather",
        tvm="take(data, indices | axis) by take",
    ),
    Op(
        "gather_elements",
        onnx="GatherElements(data, indices | axis) by elements",
        ge="GatherElements(x, index | dim=axis)",
        tvm="gather(data, indices | axis?0)",
    ),
    Op(
        "scatter_elements",
        onnx="ScatterElements/Scatter(data, indices, updates | axis, reduction) by elements",
        ge="ScatterElements(data, indices, updates | axis, reduction) by scatter_elements",
    ),
    Op(
        "top_k",
        onnx="TopK(X, k=k | axis, largest) by top_k",
        ge="TopKV2/TopK/TopKD(x, k=k | dim=axis, largest) by top_k",
        tvm="topk(data | k, axis, ret_type, is_ascend) by top_k",
    ),
    Means(
        means.gather_nd,
        ge="GatherNd(x, indices)",
        tvm="gather_nd(data, indices | batch_dims=shared) by gather_nd",
    ),
    Means(
        means.one_hot,
        tvm="one_hot(indices, on_value, off_value | depth, axis=at) by one_hot",
    ),
)
