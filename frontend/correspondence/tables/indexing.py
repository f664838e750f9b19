"""Elements looked up and replaced by index or mask, and those of an axis in order."""

from __future__ import annotations

from ..compositions import assignment, order, running
from ..compositions import indexing as means
from ..row import Means, Op

ROWS = (
    Op(
        "gather",
        onnx="Gather(data, indices | axis) by gather",
        ge=(
            "GatherV2(x, indices, axis=axis) write only",
            "GatherV2/Gather/GatherV2D(x, indices, axis=axis | batch_dims) by gather read only",
        ),
        tvm="take(data, indices | axis) by take",
        pnnx="torch.index_select(input, dim=axis, index) by gather write only",
    ),
    Means(means.index_select, pnnx="torch./Tensor./aten::index_select(input, dim=axis?0, index)"),
    Means(
        means.embedding,
        pnnx="F.embedding/nn.Embedding(input, weight)",
        aten="embedding(indices, weight)",
    ),
    Means(
        means.sliding_windows,
        onnx="com.microsoft::UnfoldTensor(input | dim=axis?-1, size=size, step=step?1)",
        pnnx="torch./Tensor./aten::unfold(input, dim=axis?0, size=size, step=step)",
    ),
    Means(
        assignment.pick,
        pnnx="Tensor.index(input, indices, indices_1?, indices_2?, indices_3?, indices_4?, indices_5?, indices_6?,"
        " indices_7?) by index",
        aten="index/_unsafe_index(self, indices) by index",
    ),
    Op(
        "gather_elements",
        onnx="GatherElements(data, indices | axis) by elements",
        ge="GatherElements(x, index | dim=axis)",
        tvm="gather(data, indices | axis?0)",
        pnnx="torch./Tensor./aten::gather(input, dim=axis?0, index, sparse_grad=_) by elements",
        aten="gather(self, dim=axis, index)",
    ),
    Op(
        "scatter_elements",
        onnx="ScatterElements/Scatter(data, indices, updates | axis, reduction) by elements",
        ge="ScatterElements(data, indices, updates | axis, reduction) by scatter_elements",
        pnnx="torch./Tensor./aten::scatter/torch./Tensor./aten::scatter_reduce/torch./Tensor./aten::scatter_add"
        "(input, dim, index, src, reduce?, include_self?) by scatter",
    ),
    Means(
        assignment.assign_rows,
        pnnx=(
            "torch./Tensor./aten::index_add(input, dim=axis?0, index, source, alpha=alpha?) where reduction='add'",
            "torch./Tensor./aten::index_copy(input, dim=axis?0, index, source)",
            "torch./Tensor./aten::index_fill(input, dim=axis?0, index, value)",
        ),
    ),
    Means(
        assignment.assign_ranges,
        pnnx="torch./Tensor./aten::slice_scatter/torch./Tensor./aten::slice_copy"
        "(input, src, dim?, start?, end?, step?) by slice_assign",
    ),
    Means(
        assignment.assign_index,
        pnnx="torch./Tensor./aten::select_scatter(input, src, dim=axis?0, index=index)",
    ),
    Means(
        assignment.assign_diagonal,
        pnnx="torch./Tensor./aten::diagonal_scatter(input, src, offset=offset?, dim1=first?, dim2=second?)",
    ),
    Means(means.take_along, pnnx="torch./Tensor./aten::take_along_dim(input, indices, dim=axis?)"),
    Means(
        assignment.put,
        pnnx="torch./Tensor./aten::index_put(input, indices, values, accumulate?) by index_put",
        aten="index_put/_unsafe_index_put(self, indices, values, accumulate?) by index_put",
    ),
    Means(
        assignment.fill,
        pnnx=(
            "torch./Tensor./aten::fill(input, value)",
            "torch./Tensor./aten::copy(input, src, non_blocking=_)",
        ),
    ),
    Means(assignment.masked_fill, pnnx="torch./Tensor.masked_fill(input, mask, value)"),
    Op(
        "top_k",
        onnx="TopK(X, k=k:single | axis, largest, sorted=_) write only",
        ge=(
            "TopKV2(x, k=k | dim=axis, largest, indices_dtype=9) write only",
            "TopKV2/TopK/TopKD(x, k=k | dim=axis, largest) by top_k read only",
        ),
        tvm="topk(data | k, axis, ret_type, is_ascend) by top_k",
        pnnx="torch.topk(input | k, dim=axis, largest, sorted=true) write only",
    ),
    Means(
        means.gather_nd,
        ge="GatherNd(x, indices)",
        tvm="gather_nd(data, indices | batch_dims=shared) by gather_nd",
    ),
    Means(means.one_hot, tvm="one_hot(indices, on_value, off_value | depth, axis=at) by one_hot"),
    Means(means.one_hot_classes, pnnx="torch./Tensor./aten::/F.one_hot(input, num_classes=count?)"),
    Means(
        order.first_k,
        onnx="TopK(X, k=k:single | axis=at, largest, sorted=_)",
        pnnx="torch./Tensor./aten::topk(input, k=k, dim=at?, largest=largest?, sorted=_)",
    ),
    Means(
        order.sort,
        pnnx="torch./Tensor./aten::sort(input, dim=at?, descending=descending? | stable=_)",
    ),
    Means(
        order.argsort,
        pnnx="torch./Tensor./aten::argsort(input, dim=at?, descending=descending? | stable=_)",
    ),
    Means(
        order.kth_value,
        pnnx="torch./Tensor./aten::kthvalue(input, k=k, dim=axis?-1, keepdim=keep_dims?)",
    ),
    Means(order.median, pnnx="torch./Tensor./aten::median(input, dim=axis?, keepdim=keep_dims?)"),
    Means(
        order.nan_median,
        pnnx="torch./Tensor./aten::nanmedian(input, dim=axis?, keepdim=keep_dims?)",
    ),
    Means(order.mode, pnnx="torch./Tensor./aten::mode(input, dim=axis?-1, keepdim=keep_dims?)"),
    Means(
        order.insertion_index,
        pnnx=(
            "torch./Tensor./aten::bucketize(input, boundaries, out_int32=narrow?, right=right?) by insertion",
            "torch./aten::searchsorted(sorted_sequence, input, out_int32=narrow?, right=right?, side?, sorter?)"
            " by insertion",
        ),
    ),
    Means(
        running.running_extremes,
        pnnx=(
            "torch./Tensor./aten::cummax(input, dim=axis) where largest=true",
            "torch./Tensor./aten::cummin(input, dim=axis) where largest=false",
        ),
    ),
    Means(
        running.running_log_sum_exp,
        common="float",
        pnnx="torch./Tensor./aten::logcumsumexp(input, dim=axis)",
    ),
)
