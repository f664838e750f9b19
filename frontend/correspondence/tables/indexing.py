"""Elements looked up and replaced by index, and the largest of an axis."""

from __future__ import annotations

from ..row import Op

ROWS = (
    Op("gather", onnx="Gather(data, indices | axis) by gather"),
    Op("gather_elements", onnx="GatherElements(data, indices | axis) by elements"),
    Op(
        "scatter_elements",
        onnx="ScatterElements/Scatter(data, indices, updates | axis, reduction) by elements",
    ),
    Op("top_k", onnx="TopK(X, k=k | axis, largest) by top_k"),
)
