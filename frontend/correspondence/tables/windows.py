"""Convolutions, pools and resampling."""

from __future__ import annotations

from ...adaptive_pool import adaptive_pool
from ...axis_layout import relaid
from ..compositions import sampling
from ..compositions import windows as means
from ..row import Means, Op

_RESIZED = (
    "mode, coordinate_transformation_mode=coordinates, nearest_mode, cubic_coeff_a=cubic_coeff, "
    "exclude_outside, extrapolation_value=extrapolation"
)

ROWS = (
    Op(
        "convolution",
        onnx="Conv(X, W, B?) by convolution",
        tvm="nn_conv[123]d/conv[123]d/nn_contrib_conv2d_NCHWc/nn_contrib_depthwise_conv2d_NCHWc"
        "/contrib_conv2d_NCHWc/_contrib_conv2d_NCHWc(data, weight, bias?) by convolution",
        pnnx="F.conv[123]d/nn.Conv[123]d(input, weight, bias?) by convolution",
        aten="convolution(input, weight, bias? | transposed=false) by general_convolution",
    ),
    Op(
        "convolution_transpose",
        onnx="ConvTranspose(X, W, B?) by convolution",
        tvm="nn_conv[123]d_transpose/conv[123]d_transpose(data, weight, bias?) by convolution_transpose",
        pnnx="F.conv_transpose[123]d/nn.ConvTranspose[123]d(input, weight, bias?) by convolution",
        aten=(
            "conv_transpose[123]d(input, weight, bias?) by convolution",
            "convolution(input, weight, bias? | transposed=true) by general_convolution",
        ),
    ),
    Op(
        "max_pool",
        onnx="MaxPool(X | kernel_shape=kernel, ceil_mode) by pool",
        tvm="nn_max_pool[123]d/max_pool[123]d(data) by pool",
        pnnx="F.max_pool[123]d/nn.MaxPool[123]d(input) by pool",
        aten="max_pool[23]d_with_indices(self) by pool",
    ),
    Op("max_pool_indices", pnnx="F.max_pool1d(input | return_indices=true) by pool write only"),
    Op(
        "min_pool",
        onnx="Neg/Sub(MaxPool(Neg/Sub(X))) by min_pool write only",
        pnnx="neg(F.max_pool[123]d(neg(input))) by min_pool write only",
    ),
    Op(
        "avg_pool",
        onnx="AveragePool(X | kernel_shape=kernel, ceil_mode, count_include_pad) by pool",
        tvm="nn_avg_pool[123]d/avg_pool[123]d(data) by pool",
        pnnx="F.avg_pool[123]d/nn.AvgPool[123]d(input) by pool",
    ),
    Op("sum_pool", pnnx="F.avg_pool2d(input | divisor_override=1) by pool write only"),
    Op(
        "lp_pool",
        onnx="LpPool(X | kernel_shape=kernel, ceil_mode, p=p:int) by pool",
        pnnx="F.lp_pool[123]d/nn.LPPool[123]d(input | norm_type=p) by pool",
    ),
    Op(
        "lrn",
        onnx="LRN(X | size, alpha, beta, bias=k)",
        tvm="nn_lrn/lrn(data | size?5, axis?1, bias=k?2.0, alpha?1e-4, beta?0.75)",
        pnnx="F.local_response_norm/nn.LocalResponseNorm(input | size, alpha, beta, k) by lrn",
    ),
    Op("im2col", pnnx="F.unfold/nn.Unfold(input) by im2col"),
    Means(sampling.columns_to_image, pnnx="F.fold/nn.Fold(input) by fold"),
    Means(
        sampling.sample_grid,
        onnx="GridSample(X, grid | mode, padding_mode=padding, align_corners)",
        pnnx="F.grid_sample(input, grid | mode?'bilinear', padding_mode=padding, align_corners) where by_tap=true",
    ),
    Means(
        sampling.affine_grid,
        onnx="AffineGrid(theta, size=size | align_corners) where single=1",
        pnnx="F.affine_grid(theta, size=size | align_corners)",
    ),
    Op(
        "resize",
        onnx=f"Resize(X, roi?, scales?, sizes? | {_RESIZED}, antialias) by resize",
        ge=f"Resize(x, roi?, scales?, sizes? | {_RESIZED}) by resize",
        tvm=(
            "image_resize2d(data | size, method, coordinate_transformation_mode) by resize",
            "nn_upsampling/upsampling(data | scale_h, scale_w, method) by upsampling read only",
        ),
        pnnx=(
            "F.interpolate/nn.Upsample/F.upsample(input, size?, scale_factor?) by resize",
            "F.upsample_nearest/nn.UpsamplingNearest2d(input, size?, scale_factor?) by resize read only",
            "F.upsample_bilinear/nn.UpsamplingBilinear2d(input, size?, scale_factor?) by resize read only",
            "aten::_upsample_nearest_exact2d(input, output_size, scales_h, scales_w) by upsample read only",
            "aten::_upsample_bilinear2d_aa/aten::_upsample_bicubic2d_aa(input, output_size, align_corners, scales_h,"
            " scales_w) by upsample read only",
        ),
        aten="upsample_nearest[123]d/_upsample_nearest_exact[123]d/upsample_linear1d/upsample_bilinear2d/upsample_trilinear3d"
        "/upsample_bicubic2d/_upsample_bilinear2d_aa/_upsample_bicubic2d_aa(input) by upsample",
    ),
    Means(
        means.global_average_pool,
        onnx="GlobalAveragePool(X)",
        ge="GlobalAveragePool(x)",
        tvm="nn_global_avg_pool[123]d/global_avg_pool[123]d(data) by global_pool",
    ),
    Means(
        means.global_max_pool,
        onnx="GlobalMaxPool(X)",
        tvm="nn_global_max_pool[123]d/global_max_pool[123]d(data) by global_pool",
    ),
    Means(
        adaptive_pool,
        tvm="nn_adaptive_avg_pool[123]d/nn_adaptive_max_pool[123]d/adaptive_avg_pool[123]d/adaptive_max_pool[123]d"
        "(data | output_size=wanted) by adaptive",
        pnnx="F.adaptive_avg_pool[123]d/nn.AdaptiveAvgPool[123]d/F.adaptive_max_pool[123]d/nn.AdaptiveMaxPool[123]d"
        "(input | output_size=wanted) by adaptive",
        aten="_adaptive_avg_pool[23]d(self | output_size=wanted) by adaptive",
    ),
    Means(
        relaid,
        tvm="layout_transform/__layout_transform__(data | src_layout=source, dst_layout=target) by layout_transform",
    ),
    Means(means.global_lp_pool, onnx="GlobalLpPool(X | p)"),
)
