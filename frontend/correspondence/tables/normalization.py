"""Normalisations."""

from __future__ import annotations

from ..compositions import normalization as means
from ..row import Means, Op

ROWS = (
    Op(
        "layer_norm",
        onnx="LayerNormalization(X, Scale, B? | axis, epsilon) by layer_norm",
        tvm="nn_layer_norm(data, gamma, beta | axis?-1, epsilon?1e-5)",
    ),
    Op("rms_norm", onnx="RMSNormalization(X, scale | axis, epsilon) by rms_norm"),
    Op(
        "batch_norm",
        onnx="BatchNormalization(X, scale, B, mean, var | epsilon) by batch_norm",
        ge="BNInfer(x, scale, offset, mean, variance | epsilon) by bn_infer",
        tvm="nn_batch_norm/batch_norm(data, gamma, beta, mean, var | axis, epsilon, scale, center) by batch_norm",
    ),
    Op(
        "instance_norm",
        onnx="InstanceNormalization(input, scale, B | epsilon) by per_channel",
        tvm="nn_instance_norm(data, gamma, beta | axis=1?1, epsilon?1e-5)",
    ),
    Op(
        "group_norm",
        onnx="GroupNormalization(X, scale, bias | num_groups=groups, epsilon) by per_channel",
        tvm="nn_group_norm(data, gamma, beta | num_groups=groups, axis=1?1, epsilon?1e-5)",
    ),
    Means(means.l2_normalize, tvm="nn_l2_normalize/l2_normalize(data | axis=axes, eps)"),
)
