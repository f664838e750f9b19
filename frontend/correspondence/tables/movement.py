"""Shapes, orders of axes, copies, parts, joins and borders."""

from __future__ import annotations

from ..compositions import movement as means
from ..row import Means, Op

SHAPES = (
    Op(
        "reshape",
        onnx="Reshape(data, shape=shape | allowzero) by reshape write only",
        ge="Reshape(x, shape=shape | axis=0, num_axes=-1) by reshape",
    ),
    Means(
        means.reshape, onnx="Reshape(data, shape=shape | allowzero)", tvm="reshape(data | shape)"
    ),
    Op(
        "broadcast",
        onnx="Expand(input, shape=shape) write only",
        ge="BroadcastTo(x, shape=shape) write only",
        tvm="broadcast_to(data | shape)",
    ),
    Means(means.expand, onnx="Expand(input, shape=shape)", ge="Expand(x, shape=shape)"),
    Means(means.broadcast_to, ge="BroadcastTo(x, shape=shape)"),
    Op(
        "transpose",
        onnx="Transpose(data | perm) by transpose write only",
        ge=(
            "Transpose(x, perm=perm)",
            "TransposeD(x | perm) read only",
            "Permute(x | order=perm) read only",
        ),
        tvm="transpose(data | axes=perm) write only",
    ),
    Means(means.transpose, onnx="Transpose(data | perm)", tvm="transpose(data | axes=perm?none)"),
    Means(
        means.flatten,
        onnx="Flatten(input | axis=split)",
        ge="Flatten(x | axis=split)",
        tvm="nn_batch_flatten/flatten(data)",
    ),
    Means(means.flatten_range, ge="FlattenV2(x | axis=first, end_axis=last)"),
    Means(
        means.squeeze,
        onnx="Squeeze(data, axes=axes?)",
        ge=("SqueezeV3(x, axes=axes?)", "Squeeze(x | axis=axes)"),
        tvm="squeeze(data | axis=axes?none)",
    ),
    Means(
        means.unsqueeze,
        onnx="Unsqueeze(data, axes=at)",
        ge=("UnsqueezeV3(x, axes=at)", "Unsqueeze(x | axes=at)", "ExpandDims(x, axis=at)"),
    ),
    Means(means.insert_axes, tvm="expand_dims(data | axis=at, num_newaxis=count?1)"),
    Means(means.tile, onnx="Tile(input, repeats=repeats)", ge="Tile(x, multiples=repeats)"),
    Means(means.tile_last, tvm="tile(data | reps=repeats)"),
    Means(means.repeat_each, tvm="repeat(data | repeats, axis)"),
    Means(means.depth_to_space, onnx="DepthToSpace(input | blocksize=block, mode)"),
    Means(means.space_to_depth, onnx="SpaceToDepth(input | blocksize=block, mode)"),
    Means(
        means.triangle,
        onnx="Trilu(input, k=diagonal? | upper)",
        ge=(
            "Trilu(x, k=diagonal? | upper)",
            "Triu(x | diagonal) where upper=true",
            "Tril(x | diagonal) where upper=false",
        ),
    ),
)

PARTS = (
    Op(
        "concat",
        onnx="Concat(inputs* | axis)",
        ge=(
            "ConcatD/ConcatV2D(x* | concat_dim=axis)",
            "Concat/ConcatV2(x*, concat_dim=axis) read only",
        ),
        tvm="concatenate(data* | axis?1)",
    ),
    Means(means.stack, ge="Pack(x* | axis=at)", tvm="stack(data* | axis=at?0)"),
    Op(
        "slice",
        onnx="Slice(data, starts, ends, axes?, steps?) by slice",
        ge="StridedSlice/StridedSliceV2(x, begin, end, strides?) by slice",
        tvm="strided_slice(data | begin, end, strides) by slice",
    ),
    Means(
        means.slice_sizes,
        ge=("Slice(x, offsets=starts, size=sizes)", "SliceD(x | offsets=starts, size=sizes)"),
    ),
    Means(
        means.split_evenly,
        ge=(
            "SplitD(x | split_dim=axis, num_split=count)",
            "Split(x, split_dim=axis | num_split=count)",
        ),
        tvm="split(data | indices_or_sections=count, axis) by split",
    ),
    Means(
        means.split_sizes,
        ge=(
            "SplitVD(x | split_dim=axis, size_splits=sizes)",
            "SplitV(x, size_splits=sizes, split_dim=axis)",
        ),
    ),
    Means(means.unstack, ge="Unpack(x | axis, num=count)"),
    Means(means.flip, ge="ReverseV2(x, axis=axes)", tvm="reverse/flip(data | axis=axes?0)"),
    Op(
        "pad",
        onnx="Pad(data, pads, constant_value?, axes? | mode) by pad",
        ge="PadV3/Pad/PadV2/PadD/MirrorPad(x, paddings, constant_values? | mode) by pad",
        tvm="nn_pad/pad(data | pad_width, pad_mode, pad_value) by pad",
    ),
)

ROWS = (*SHAPES, *PARTS)
