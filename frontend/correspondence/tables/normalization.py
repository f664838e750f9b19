"""Normalisations."""

from __future__ import annotations

from ..row import Op

ROWS = (
    Op("layer_norm", onnx="LayerNormalization(X, Scale, B? | axis, epsilon) by layer_norm"),
    Op("rms_norm", onnx="RMSNormalization(X, scale | axis, epsilon) by rms_norm"),
    Op("batch_norm", onnx="BatchNormalization(X, scale, B, mean, var | epsilon) by batch_norm"),
    Op("instance_norm", onnx="InstanceNormalization(input, scale, B | epsilon) by instance_norm"),
    Op(
        "group_norm",
        onnx="GroupNormalization(X, scale, bias | num_groups=groups, epsilon) by group_norm",
    ),
)
