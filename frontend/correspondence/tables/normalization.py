"""Normalizations."""

from __future__ import annotations

from ..compositions import normalization as means
from ..row import Means, Op

ROWS = (
    Op(
        "layer_norm",
        onnx="LayerNormalization(X, Scale, B? | axis, epsilon) by layer_norm",
        tvm="nn_layer_norm(data, gamma, beta | axis?-1, epsilon?1e-5)",
        pnnx="F.layer_norm/nn.LayerNorm(input, weight?, bias? | normalized_shape, eps) by over_last",
        aten="native_layer_norm(input, weight?, bias? | normalized_shape, eps) by native_layer_norm",
    ),
    Op(
        "rms_norm",
        onnx="RMSNormalization(X, scale | axis, epsilon) by rms_norm",
        pnnx="F.rms_norm/nn.RMSNorm(input, weight? | normalized_shape, eps) by over_last",
    ),
    Op(
        "batch_norm",
        onnx="BatchNormalization(X, scale, B, mean, var | epsilon) by batch_norm",
        ge="BNInfer(x, scale, offset, mean, variance | epsilon) by bn_infer",
        tvm="nn_batch_norm/batch_norm(data, gamma, beta, mean, var | axis, epsilon, scale, center) by batch_norm",
        pnnx=(
            "F.batch_norm(input, weight, bias, running_mean, running_var | eps=epsilon, training=false) where axis=1"
            " write only",
            "F.batch_norm/nn.BatchNorm[123]d(input, running_mean, running_var, weight?, bias?) by per_channel"
            " read only",
        ),
        aten="native_batch_norm/_native_batch_norm_legit/_native_batch_norm_legit_no_training"
        "(input, weight?, bias?, running_mean?, running_var? | eps) by native_batch_norm",
    ),
    Op(
        "instance_norm",
        onnx="InstanceNormalization(input, scale, B | epsilon) by per_channel",
        tvm="nn_instance_norm(data, gamma, beta | axis=1?1, epsilon?1e-5)",
        pnnx=(
            "F.instance_norm(input, weight?, bias? | eps=epsilon) write only",
            "F.instance_norm/nn.InstanceNorm[123]d(input, running_mean?, running_var?, weight?, bias?) by per_channel"
            " read only",
        ),
    ),
    Op(
        "group_norm",
        onnx="GroupNormalization(X, scale, bias | num_groups=groups, epsilon) by per_channel",
        tvm="nn_group_norm(data, gamma, beta | num_groups=groups, axis=1?1, epsilon?1e-5)",
        pnnx=(
            "F.group_norm(input, weight?, bias? | num_groups=groups, eps=epsilon) write only",
            "F.group_norm/nn.GroupNorm(input, weight?, bias? | num_groups) by per_channel read only",
        ),
        aten="native_group_norm(input, weight?, bias? | group, eps) by native_group_norm",
    ),
    Means(means.lp_normalize, pnnx="F.normalize(input | p, dim=at, eps)"),
    Means(
        means.l2_normalize,
        ge="L2Normalize(x | axis=axes, eps)",
        tvm="nn_l2_normalize/l2_normalize(data | axis=axes, eps)",
    ),
)
