"""Inputs, outputs and attributes of GE's ops, in the order of their IR, written as GE's documents write them.

`x?` is optional, `x*` dynamic (printed x_0, x_1, ...), `key!` required, `key=value` has a default. What a cell of the
table of all formats says completely is not repeated here.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...base.records import dataclass
from ..correspondence.tables import TABLE
from ..correspondence.values import MUST_BE_GIVEN
from .attribute_text import read_number

_REDUCTIONS = "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceLogSumExp"
_MASKS = "begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0"
_TRANSPOSED = (
    "dilations={1,1,1,1}, groups=1, data_format=NHWC, output_padding={0,0,0,0}, offset_x=0"
)
_PADDED = "padding_mode=CALCULATED, pads={0,0,0,0}, data_format=NCHW"
_CAFFE = (
    "mode=0, global_pooling=false, window={1,1}, stride={1,1}, pad={0,0,0,0}, dilation={1,1,1,1}, ceil_mode=0, "
    "data_format=NCHW"
)
_RESIZED = (
    "coordinate_transformation_mode=half_pixel, cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, "
    "mode=nearest, nearest_mode=round_prefer_floor"
)

_TABLE = f"""
Data(x?) | index=0
Const() | value
Constant() | value
Variable(x?) | index=0
RefData(x?) | index=0
IdentityN(x*)
MatMul(x1, x2, bias?) | transpose_x1=false, transpose_x2=false
MatMulV2(x1, x2, bias?, offset_w?) | transpose_x1=false, transpose_x2=false, offset_x=0
BatchMatMulV2(x1, x2, bias?, offset_w?) | adj_x1=false, adj_x2=false, offset_x=0
BatchMatMulV3(x1, x2, bias?, offset_w?) | adj_x1=false, adj_x2=false, offset_x=0, enable_hf32=false
Unsqueeze(x) | axes={{}}
Squeeze(x) | axis={{}}
TopKV2(x, k) | sorted=true, dim=-1, largest=true, indices_dtype=3
TopK(x, k) | sorted=true, largest=true, dim=-1
TopKD(x) | k!, sorted=true, dim=-1, largest=true
ReduceAll(x, axes) | keep_dims=false
ReduceAny(x, axes) | keep_dims=false
ReduceAllD(x) | axes!, keep_dims=false
ReduceAnyD(x) | axes!, keep_dims=false
Shape(x) | dtype=3
Size(x)
Rank(x)
Fill(dims, value)
FillV2(dims) | value=0.0
MaskedFill(x, mask, value)
Gather(x, indices) | validate_indices=true, batch_dims=0
GatherV2(x, indices, axis) | batch_dims=0
GatherV2D(x, indices) | axis!
OneHot(x, depth, on_value, off_value) | axis=-1
OneHotD(x, on_value, off_value) | depth!, axis=-1
Concat(concat_dim, x*) | N=1
ConcatV2(x*, concat_dim) | N=1
ConcatD(x*) | concat_dim!, N=1
ConcatV2D(x*) | concat_dim!, N=1
Split(split_dim, x) | num_split!
SplitV(x, size_splits, split_dim) | num_split!
SplitVD(x) | size_splits!, split_dim!, num_split!
Pack(x*) | axis=0, N=1
Unpack(x) | num!, axis=0
FlattenV2(x) | axis=1, end_axis=-1
StridedSlice(x, begin, end, strides?) | {_MASKS}
StridedSliceV2(x, begin, end, axes?, strides?) | {_MASKS}
Pad(x, paddings)
PadV2(x, paddings, constant_values)
PadD(x) | paddings!
PadV3(x, paddings, constant_values?) | mode=constant, paddings_contiguous=true
MirrorPad(x, paddings) | mode!
Range(start, limit, delta) | is_closed=false
TransData(src) | src_format!, dst_format!, groups=1
ArgMaxV2(x, dimension) | dtype=DT_INT64
ArgMaxD(x) | dimension!
ArgMin(x, dimension) | dtype=DT_INT64
ArgMinD(x) | dimension!
ArgMaxWithValue(x) | dimension!, keep_dims=false
Sort(x) | axis=-1, descending=false, stable=false
CumsumD(x) | axis!, exclusive=false, reverse=false
CumprodD(x) | axis!, exclusive=false, reverse=false
BiasAdd(x, bias) | data_format=NHWC
BatchNorm(x, scale, offset, mean?, variance?) | epsilon=0.0001, data_format=NHWC, is_training=true
BNInfer(x, scale, offset, mean, variance) | epsilon!
LayerNorm(x, gamma, beta) | begin_norm_axis=0, begin_params_axis=0, epsilon=0.0000001
LayerNormV3(x, gamma, beta) | begin_norm_axis=0, begin_params_axis=0, epsilon=0.00001
LayerNormV4(x, normalized_shape, gamma?, beta?) | epsilon=0.00001
AscendQuant(x) | scale!, offset!, sqrt_mode=false, round_mode=Round, dst_type=2
AscendDequant(x, deq_scale) | sqrt_mode=false, relu_flag=false, dtype=0
AscendAntiQuant(x) | scale!, offset!, dtype=0, sqrt_mode=false
RmsNorm(x, gamma) | epsilon=0.000001
AddRmsNorm(x1, x2, gamma) | epsilon=0.000001
L2Normalize(x) | axis={{}}, eps=0.0001
SoftmaxV2(x) | axes={{-1}}, half_to_float=false
LogSoftmaxV2(logits) | axes={{-1}}
LeakyRelu(x) | negative_slope=0.0
Swish(x) | scale=1.0
HardSigmoid(input_x) | alpha=0.16666666666666666, beta=0.5
Exp(x) | base=-1.0, scale=1.0, shift=0.0
Log(x) | base=-1.0, scale=1.0, shift=0.0
AddN(x*) | N!
Conv2D(x, filter, bias?, offset_w?) | strides!, pads!, dilations={{1,1,1,1}}, groups=1, data_format=NHWC, offset_x=0
Conv3D(x, filter, bias?, offset_w?) | strides!, pads!, dilations={{1,1,1,1,1}}, groups=1, data_format=NDHWC, offset_x=0
DepthwiseConv2D(x, filter, bias?, offset_w?) | strides!, dilations={{1,1,1,1}}, pads!, data_format=NHWC, offset_x=0
Conv2DTranspose(input_size, x, filter, bias?, offset_w?) | strides!, pads!, {_TRANSPOSED}
Conv2DTransposeD(x, filter, bias?, offset_w?) | input_size!, strides!, pads!, {_TRANSPOSED}
MaxPool(x) | ksize!, strides!, padding!, data_format=NHWC
AvgPool(x) | ksize!, strides!, padding!, data_format=NHWC
MaxPoolV3(x) | ksize!, strides!, {_PADDED}, global_pooling=false, ceil_mode=false
AvgPoolV2(x) | ksize!, strides!, {_PADDED}, global_pooling=false, ceil_mode=false, exclusive=true, divisor_override=0
Pooling(x) | {_CAFFE}
AdaptiveAvgPool2d(x) | output_size!
AdaptiveMaxPool2d(x) | output_size!
ResizeBilinearV2(x, size) | align_corners=false, half_pixel_centers=false
ResizeNearestNeighborV2(x, size) | align_corners=false, half_pixel_centers=false
Resize(x, roi?, scales?, sizes?) | {_RESIZED}
GroupNorm(x, gamma, beta) | num_groups!, data_format=NHWC, eps=0.0001, is_training=true
InstanceNorm(x, gamma, beta) | data_format=NDHWC, epsilon=0.000001
ScatterNd(indices, x, shape)
TensorScatterUpdate(x, indices, updates)
TensorScatterAdd(x, indices, updates)
TensorScatterSub(x, indices, updates)
TensorScatterMax(x, indices, updates)
TensorScatterMin(x, indices, updates)
Where(x)
NonZero(x) | transpose=false
ShapeN(x*) | dtype=3
DepthToSpace(x) | block_size!, mode=DCR, data_format=NHWC
SpaceToDepth(x) | block_size!, data_format=NHWC
Bitcast(x) | type!
Einsum(x*) | equation!, N!
ReduceStd(x) | dim={{}}, unbiased=true, keepdim=false
LpNorm(x) | p=2, axes={{}}, keepdim=false, epsilon=0.0
If(cond, input*) | then_branch!, else_branch!
StatelessIf(cond, input*) | then_branch!, else_branch!
StatefulIf(cond, input*) | then_branch!, else_branch!
Case(branch_index, input*) | branches*
StatelessCase(branch_index, input*) | branches*
While(input*) | cond!, body!, parallel_iterations=10
StatelessWhile(input*) | cond!, body!, parallel_iterations=10
StatefulWhile(input*) | cond!, body!, parallel_iterations=10
For(start, limit, delta, input*) | body!
PartitionedCall(args*) | f!, config="", config_proto="", executor_type=""
StatefulPartitionedCall(args*) | f!, config="", config_proto="", executor_type=""
"""


@dataclass(frozen=True)
class Signature:
    """The signature of an op; `inputs` keep their `?` and `*`, `required` attributes have no default."""

    inputs: tuple[str, ...]
    defaults: dict[str, Any]
    required: tuple[str, ...]


@cache
def signatures() -> dict[str, Signature]:
    """Every op with a known signature, by its type."""
    lines = [line for line in _TABLE.splitlines() if line]
    for name in _REDUCTIONS.split():
        lines.append(f"{name}(x, axes) | keep_dims=false, noop_with_empty_axes=true")
        lines.append(f"{name}D(x) | axes!, keep_dims=false")
    return _with_cells(dict(_parse(line) for line in lines))


def _with_cells(found: dict[str, Signature]) -> dict[str, Signature]:
    """Completed by what cells of the table say of other ops: their defaults are those of graphc."""
    for type_name, ((row, cell), *_) in TABLE.reads("ge").items():
        if type_name in found:
            continue
        inputs = tuple(x.name + ("*" if x.variadic else "?" * x.optional) for x in cell.formals)
        given = {a.name: row.default(a.ours) if a.ours else a.literal for a in cell.attributes}
        required = tuple(key for key, default in given.items() if default is MUST_BE_GIVEN)
        defaults = {key: value for key, value in given.items() if key not in required}
        found[type_name] = Signature(inputs, defaults, required)
    return found


def _parse(line: str) -> tuple[str, Signature]:
    head, _, attrs = line.partition(" | ")
    name, _, inputs = head.strip().rstrip(")").partition("(")
    items = [item for item in attrs.split(", ") if item]
    defaults = dict(_default(item) for item in items if "=" in item)
    required = tuple(item[:-1] for item in items if item.endswith("!"))
    return name, Signature(tuple(i for i in inputs.split(", ") if i), defaults, required)


def _default(item: str) -> tuple[str, Any]:
    key, _, text = item.partition("=")
    if text.startswith("{"):
        return key, tuple(int(part) for part in text[1:-1].split(",") if part)
    number = read_number(text)
    return key, (text.strip('"') if number is None else number)
