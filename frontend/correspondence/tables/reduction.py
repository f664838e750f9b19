"""Reductions over axes, the index of the largest or smallest element, softmax, scans."""

from __future__ import annotations

from ..compositions import reduction as means
from ..grid import grid
from ..row import Means, Op

REDUCTIONS = grid(
    """
    op                 onnx             ge                     tvm   pnnx
    reduce_sum         ReduceSum        ReduceSumD/ReduceSum   sum   sum
    reduce_mean        ReduceMean       ReduceMeanD/ReduceMean mean  mean
    reduce_max         ReduceMax        ReduceMaxD/ReduceMax   max   amax
    reduce_min         ReduceMin        ReduceMinD/ReduceMin   min   amin
    reduce_prod        ReduceProd       ReduceProdD/ReduceProd prod  prod
    reduce_l1          ReduceL1         -                      -     -
    reduce_l2          ReduceL2         -                      -     -
    reduce_log_sum     ReduceLogSum     -                      -     -
    reduce_sum_square  ReduceSumSquare  -                      -     -
    reduce_any         -                ReduceAnyD/ReduceAny   any   -
    reduce_all         -                ReduceAllD/ReduceAll   all   -
    """,
    onnx="{}(data, axes=axes? | keepdims=keep_dims) by reduce",
    ge="{}(x | axes, keep_dims) by reduce",
    tvm="{}(data | axis=axes, keepdims=keep_dims) by reduce",
    pnnx="torch.{0}/Tensor.{0}(input | dim=axes, keepdim=keep_dims) by reduce",
)

_SPREAD = "(input, dim=axes?, unbiased=unbiased?, keepdim=keep_dims? | correction)"

ROWS = (
    *REDUCTIONS,
    Op(
        "reduce_log_sum_exp",
        onnx="ReduceLogSumExp(data, axes=axes? | keepdims=keep_dims) by reduce",
        ge="ReduceLogSumExpD/ReduceLogSumExp(x | axes, keep_dims) by reduce",
        tvm="logsumexp(data | axis=axes, keepdims=keep_dims) by reduce",
        pnnx="torch.logsumexp/Tensor.logsumexp(input | dim=axes, keepdim=keep_dims) by reduce",
    ),
    # The maximum of bools is `any`.
    Op(
        "reduce_any",
        onnx="ReduceMax(data, axes=axes? | keepdims=keep_dims) by reduce write only",
        pnnx="torch.any/Tensor.any(input | dim=axes, keepdim=keep_dims) by reduce",
    ),
    Op(
        "reduce_all",
        onnx="ReduceMin(data, axes=axes? | keepdims=keep_dims) by reduce write only",
        pnnx="torch.all/Tensor.all(input | dim=axes, keepdim=keep_dims) by reduce",
    ),
    Op(
        "reduce_max",
        pnnx="torch./Tensor.max(input, other? | dim=axes, keepdim=keep_dims) by extreme read only",
    ),
    Op(
        "reduce_min",
        pnnx="torch./Tensor.min(input, other? | dim=axes, keepdim=keep_dims) by extreme read only",
    ),
    Means(
        means.sum_of_numbers,
        pnnx=(
            "torch./Tensor./aten::nansum(input, dim=axes?, keepdim=keep_dims?, dtype=dtype?)",
            "torch./Tensor./aten::nanmean(input, dim=axes?, keepdim=keep_dims?, dtype=dtype?) where is_mean=true",
        ),
    ),
    Means(
        means.variance,
        pnnx=(
            "torch./Tensor.var(input | dim=axes, unbiased, keepdim=keep_dims, correction)",
            "torch./Tensor.std(input | dim=axes, unbiased, keepdim=keep_dims, correction) where is_root=true",
        ),
    ),
    Means(
        means.with_mean,
        ge="ReduceStd(x | dim=axes, unbiased=unbiased:bool, keepdim=keep_dims) where is_root=true",
        pnnx=(
            f"torch./Tensor./aten::var_mean{_SPREAD}",
            f"torch./Tensor./aten::std_mean{_SPREAD} where is_root=true",
        ),
    ),
    Op(
        "reduce_l1",
        ge="LpNorm(x | p=1, axes, keepdim=keep_dims) by norm",
        pnnx="torch.norm/Tensor.norm(input | p=1, dim=axes, keepdim=keep_dims) by norm",
    ),
    Op(
        "reduce_l2",
        ge="LpNorm(x | p=2, axes, keepdim=keep_dims) by norm",
        pnnx="torch.norm/Tensor.norm(input | p=2, dim=axes, keepdim=keep_dims) by norm",
    ),
    Means(
        means.lp_norm,
        pnnx="torch.linalg.norm/torch.linalg.matrix_norm/aten::linalg_norm/aten::linalg_matrix_norm"
        "(input, ord, dim, keepdim, dtype) by linalg_norm",
    ),
    Op(
        "arg_max",
        onnx="ArgMax(data | axis, keepdims=keep_dims, select_last_index=last)",
        ge="ArgMaxV2/ArgMaxD(x, dimension=axis) by arg",
        tvm="argmax(data | axis, keepdims=keep_dims) by arg",
        pnnx="torch.argmax/Tensor.argmax(input | dim=axis, keepdim=keep_dims) by arg",
    ),
    Op(
        "arg_min",
        onnx="ArgMin(data | axis, keepdims=keep_dims, select_last_index=last)",
        ge="ArgMin/ArgMinD(x, dimension=axis) by arg",
        tvm="argmin(data | axis, keepdims=keep_dims) by arg",
        pnnx="torch.argmin/Tensor.argmin(input | dim=axis, keepdim=keep_dims) by arg",
    ),
    Op(
        "softmax",
        onnx="Softmax(input | axis) by softmax",
        ge="SoftmaxV2(x | axes=axis:single, half_to_float=false)",
        tvm="nn_softmax/softmax/nn_fast_softmax(data | axis) by softmax",
        pnnx="F.softmax/nn.Softmax/torch.softmax(input | dim=axis) by softmax",
        aten="_softmax(self, dim=axis, half_to_float=false)",
    ),
    Means(means.softmin, pnnx="F.softmin/nn.Softmin(input | dim=axis) by softmax"),
    Means(means.channel_softmax, pnnx="nn.Softmax2d(input)"),
    Means(means.wide_softmax, ge="SoftmaxV2(x | axes=axis:single, half_to_float=true)"),
    Op(
        "log_softmax",
        onnx="LogSoftmax(input | axis) by softmax",
        ge="LogSoftmaxV2(logits | axes=axis:single)",
        tvm="nn_log_softmax/log_softmax(data | axis) by softmax",
        pnnx="F.log_softmax/nn.LogSoftmax/torch.log_softmax(input | dim=axis) by softmax",
        aten="_log_softmax(self, dim=axis, half_to_float=false)",
    ),
    Op(
        "cum_sum",
        onnx="CumSum(x, axis=axis | exclusive, reverse)",
        ge=(
            "CumsumD(x | axis, exclusive, reverse)",
            "Cumsum(x, axis=axis | exclusive, reverse) read only",
        ),
        pnnx="torch./Tensor./aten::cumsum(input, dim, dtype?) where exclusive=false by scan",
    ),
    Op(
        "cum_prod",
        onnx="CumProd(x, axis=axis | exclusive, reverse) read only",
        ge=(
            "CumprodD(x | axis, exclusive, reverse)",
            "Cumprod(x, axis=axis | exclusive, reverse) read only",
        ),
        pnnx="torch./Tensor./aten::cumprod(input, dim, dtype?) where exclusive=false by scan",
    ),
)
