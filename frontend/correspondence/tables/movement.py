"""Shapes, orders of axes, copies, parts, joins and borders."""

from __future__ import annotations

from ..compositions import axes, run_time, triangles
from ..compositions import movement as means
from ..compositions import numpy_names as names
from ..row import Means, Op

SHAPES = (
    Op(
        "reshape",
        onnx="Reshape(data, shape=shape | allowzero) by reshape write only",
        ge="Reshape(x, shape=shape | axis=0, num_axes=-1) by reshape",
        pnnx="Tensor.reshape/torch.reshape/torch./Tensor.view(input, shape=shape) by reshape",
    ),
    Means(axes.reshape_as, pnnx="torch./Tensor.reshape_as/torch./Tensor.view_as(input, other)"),
    Means(
        axes.unflatten, pnnx="torch./Tensor.unflatten/nn.Unflatten(input, dim=axis, sizes=sizes)"
    ),
    Means(
        means.reshape, onnx="Reshape(data, shape=shape | allowzero)", tvm="reshape(data | shape)"
    ),
    Op(
        "broadcast",
        onnx="Expand(input, shape=shape) write only",
        ge="BroadcastTo(x, shape=shape) write only",
        tvm="broadcast_to(data | shape)",
        pnnx="Tensor.expand(input, sizes=shape) write only",
    ),
    Means(run_time.expand, onnx="Expand(input, shape=shape)", ge="Expand(x, shape=shape)"),
    Means(
        means.broadcast_to,
        ge="BroadcastTo(x, shape=shape)",
        pnnx="torch./Tensor.expand/torch./Tensor.broadcast_to(input, sizes=shape)",
    ),
    Means(axes.broadcast_as, pnnx="torch./Tensor.expand_as(input, other)"),
    Op(
        "transpose",
        onnx="Transpose(data | perm) by transpose write only",
        ge=(
            "Transpose(x, perm=perm)",
            "TransposeD(x | perm) read only",
            "Permute(x | order=perm) read only",
        ),
        hlo="transpose(x | dimensions=perm)",
        tvm="transpose(data | axes=perm) write only",
        pnnx="Tensor.permute(input, dims=perm) write only",
    ),
    Means(
        means.transpose,
        onnx="Transpose(data | perm?none)",
        tvm="transpose(data | axes=perm?none)",
        pnnx="torch./Tensor.permute(input, dims=perm)",
    ),
    Means(
        axes.swap_axes,
        pnnx=(
            "torch./Tensor.transpose/torch./Tensor./aten::swapaxes(input, dim0=first, dim1=second)",
            "aten::mT(input) where first=-2, second=-1",
        ),
    ),
    Means(axes.matrix_transpose, pnnx="torch./Tensor.t/aten::numpy_T(input)"),
    Means(
        axes.move_axes,
        pnnx="torch./Tensor./aten::movedim(input, source=sources, destination=targets)",
    ),
    Means(
        means.flatten,
        onnx="Flatten(input | axis=split)",
        ge="Flatten(x | axis=split)",
        tvm="nn_batch_flatten/flatten(data)",
    ),
    Means(
        means.flatten_range,
        ge="FlattenV2(x | axis=first, end_axis=last)",
        pnnx="torch./Tensor.flatten/nn.Flatten(input, start_dim=first?, end_dim=last?)",
    ),
    Means(
        means.squeeze,
        onnx="Squeeze(data, axes=axes?)",
        ge=("SqueezeV3(x, axes=axes?)", "Squeeze(x | axis=axes)"),
        tvm="squeeze(data | axis=axes?none)",
        pnnx="torch./Tensor.squeeze(input, dim=axes?) where strict=false",
    ),
    Means(
        means.unsqueeze,
        onnx="Unsqueeze(data, axes=at)",
        ge=("UnsqueezeV3(x, axes=at)", "Unsqueeze(x | axes=at)", "ExpandDims(x, axis=at)"),
        pnnx="torch./Tensor.unsqueeze(input, dim=at)",
    ),
    Means(means.insert_axes, tvm="expand_dims(data | axis=at, num_newaxis=count?1)"),
    Means(
        means.tile,
        onnx="Tile(input, repeats=repeats)",
        ge="Tile(x, multiples=repeats)",
        pnnx="torch./Tensor.repeat(input, sizes=repeats)",
    ),
    Means(
        means.tile_last,
        tvm="tile(data | reps=repeats)",
        pnnx="torch./Tensor.tile(input, dims=repeats)",
    ),
    Means(means.repeat_each, tvm="repeat(data | repeats, axis)"),
    Means(
        means.depth_to_space,
        onnx="DepthToSpace(input | blocksize=block, mode)",
        tvm="nn_depth_to_space(data | block_size=block, mode)",
        pnnx="F.pixel_shuffle/nn.PixelShuffle(input | upscale_factor=block) where mode='CRD'",
    ),
    Means(
        means.space_to_depth,
        onnx="SpaceToDepth(input | blocksize=block, mode)",
        tvm="nn_space_to_depth(data | block_size=block, mode)",
        pnnx="F.pixel_unshuffle/nn.PixelUnshuffle(input | downscale_factor=block) where mode='CRD'",
    ),
    Means(
        means.channel_shuffle,
        pnnx=(
            "F.channel_shuffle/nn.ChannelShuffle(input | groups)",
            "aten::channel_shuffle(input, groups=groups)",
        ),
    ),
    Means(
        triangles.triangle,
        onnx="Trilu(input, k=diagonal? | upper) by triangle",
        ge=(
            "Trilu(x, k=diagonal? | upper)",
            "Triu(x | diagonal) where upper=true",
            "Tril(x | diagonal) where upper=false",
        ),
        pnnx=(
            "torch./Tensor./aten::triu(input, diagonal=diagonal?) where upper=true",
            "torch./Tensor./aten::tril(input, diagonal=diagonal?) where upper=false",
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
        hlo="concatenate(x* | dimensions=axis)",
        tvm="concatenate(data* | axis?1)",
        pnnx="torch./Tensor.cat/torch./Tensor.concat(tensors* | dim=axis?0)",
    ),
    Means(
        means.stack,
        common="any",
        ge="Pack(x* | axis=at)",
        tvm="stack(data* | axis=at?0)",
        pnnx="torch./Tensor.stack(tensors* | dim=at)",
    ),
    Op(
        "slice",
        onnx="Slice(data, starts, ends, axes?, steps?) by slice",
        ge="StridedSlice/StridedSliceV2(x, begin, end, strides?) by slice",
        tvm="strided_slice(data | begin, end, strides) by slice",
        pnnx="Tensor.slice/torch.slice(input, dim?, start?, end?, step?) by slice",
    ),
    Means(means.select_index, pnnx="torch./Tensor.select(input, dim=axis?0, index=index)"),
    Means(axes.narrow, pnnx="torch./Tensor.narrow(input, dim=axis?0, start=start, length=size)"),
    Means(
        axes.diag_embed,
        pnnx="torch./Tensor./aten::diag_embed(input, offset=offset?, dim1=first?, dim2=second?)",
    ),
    Means(
        axes.diagonal,
        pnnx="torch./Tensor./aten::diagonal(input, offset=offset?, dim1=first?, dim2=second?)",
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
    Means(
        means.flip,
        ge="ReverseV2(x, axis=axes)",
        tvm="reverse/flip(data | axis=axes?0)",
        pnnx="torch./Tensor.flip(input, dims=axes)",
    ),
    Means(axes.roll, pnnx="torch./Tensor.roll(input, shifts=shifts, dims=axes?)"),
    Means(
        axes.differences,
        pnnx="torch./Tensor./aten::diff(input, n=times?, dim=axis?, prepend?, append?) by diff",
    ),
    Op(
        "pad",
        onnx="Pad(data, pads, constant_value?, axes? | mode) by pad",
        ge="PadV3/Pad/PadV2/PadD/MirrorPad(x, paddings, constant_values? | mode) by pad",
        tvm="nn_pad/pad(data | pad_width, pad_mode, pad_value) by pad",
        pnnx=(
            "F.pad(input, pad | mode, value) by pad",
            "nn.ZeroPad[123]d/nn.ConstantPad[123]d/nn.ReflectionPad[123]d(input | padding, value) by pad read only",
            "nn.ReplicationPad[123]d/nn.CircularPad[123]d(input | padding) by pad read only",
        ),
    ),
)

NAMED_AS_IN_NUMPY = (
    Means(means.flatten_range, pnnx="torch./Tensor./aten::ravel(input)"),
    Means(names.with_axes, pnnx="torch./aten::atleast_[123]d(input) by ranked"),
    Means(
        names.stack_along,
        pnnx=(
            "torch./aten::vstack(tensors*) where axis=0",
            "torch./aten::hstack(tensors*) where axis=1",
            "torch./aten::dstack(tensors*) where axis=2",
        ),
    ),
    Means(names.stack_columns, pnnx="torch./aten::column_stack(tensors*)"),
    Means(names.take, pnnx="torch./Tensor./aten::take(input, index)"),
    Means(
        names.covariance,
        common="float",
        pnnx="torch./Tensor./aten::cov(input, correction=correction?, fweights?, aweights?) by covariance",
    ),
    Means(names.vandermonde, pnnx="torch./aten::vander(input, N=count?, increasing=increasing?)"),
    Means(names.correlation, common="float", pnnx="torch./Tensor./aten::corrcoef(input)"),
    Means(
        names.combinations,
        pnnx="torch./aten::combinations(input, r=size?, with_replacement=repeats?)",
    ),
)
"""Functions with NumPy's names that the tool does not know."""

ROWS = (*SHAPES, *PARTS, *NAMED_AS_IN_NUMPY)
