"""The cases of `bench --suite ops`: every op family at shapes of real networks. `bench/one_op.py` reads the lines."""

from __future__ import annotations

OP_CASES = """
# Transposes: every class of permutation of 2 to 5 axes.
transpose 10 1024x1024: Transpose(f32[1024, 1024], perm=[1, 0])
transpose 10 197x768: Transpose(f32[197, 768], perm=[1, 0])
transpose 10 3x50000: Transpose(f32[3, 50000], perm=[1, 0])
transpose 021 8x768x196: Transpose(f32[8, 768, 196], perm=[0, 2, 1])
transpose 102 128x12x64: Transpose(f32[128, 12, 64], perm=[1, 0, 2])
transpose 120 64x197x96: Transpose(f32[64, 197, 96], perm=[1, 2, 0])
transpose 201 197x64x96: Transpose(f32[197, 64, 96], perm=[2, 0, 1])
transpose 210 96x50x128: Transpose(f32[96, 50, 128], perm=[2, 1, 0])
transpose 0132 8x12x128x64: Transpose(f32[8, 12, 128, 64], perm=[0, 1, 3, 2])
transpose 0213 1x128x12x64: Transpose(f32[1, 128, 12, 64], perm=[0, 2, 1, 3])
transpose 0213 8x197x12x64: Transpose(f32[8, 197, 12, 64], perm=[0, 2, 1, 3])
transpose 0231 1x256x56x56: Transpose(f32[1, 256, 56, 56], perm=[0, 2, 3, 1])
transpose 0231 8x3x224x224: Transpose(f32[8, 3, 224, 224], perm=[0, 2, 3, 1])
transpose 0231 1x128x12x64: Transpose(f32[1, 128, 12, 64], perm=[0, 2, 3, 1])
transpose 0312 1x56x56x256: Transpose(f32[1, 56, 56, 256], perm=[0, 3, 1, 2])
transpose 0312 8x224x224x3: Transpose(f32[8, 224, 224, 3], perm=[0, 3, 1, 2])
transpose 0321 2x64x40x48: Transpose(f32[2, 64, 40, 48], perm=[0, 3, 2, 1])
transpose 1032 12x16x64x33: Transpose(f32[12, 16, 64, 33], perm=[1, 0, 3, 2])
transpose 3210 17x16x32x48: Transpose(f32[17, 16, 32, 48], perm=[3, 2, 1, 0])
transpose shuffle 02134: Transpose(f32[1, 4, 58, 28, 28], perm=[0, 2, 1, 3, 4])
transpose window 013245: Transpose(f32[1, 8, 7, 8, 7, 96], perm=[0, 1, 3, 2, 4, 5])
transpose qkv 20314: Transpose(f32[8, 197, 3, 12, 64], perm=[2, 0, 3, 1, 4])
transpose yolo 01342: Transpose(f32[1, 3, 85, 40, 40], perm=[0, 1, 3, 4, 2])
transpose 43210: Transpose(f32[16, 9, 20, 8, 24], perm=[4, 3, 2, 1, 0])
transpose f16 0231: Transpose(f16[1, 256, 56, 56], perm=[0, 2, 3, 1])
transpose u8 0231 video: Transpose(u8[4, 3, 256, 256], perm=[0, 2, 3, 1])
transpose u8 10: Transpose(u8[1024, 768], perm=[1, 0])
transpose s64 0213: Transpose(s64[8, 64, 12, 32], perm=[0, 2, 1, 3])
# Movement of rows.
slice tokens 8x128x768: Slice(f32[8, 128, 768], [0], [1], [1])
slice rows 8x128x768: Slice(f32[8, 128, 768], [16], [112], [1])
slice columns 512x2304: Slice(f32[512, 2304], [768], [1536], [1])
slice step 2 64x112x112: Slice(f32[1, 64, 112, 112], [0, 0], [112, 112], [2, 3], [2, 2])
slice reversed 128x1024: Slice(f32[128, 1024], [-1], [-2000], [1], [-1])
slice u8 8x128x768: Slice(u8[8, 128, 768], [16], [112], [1])
split qkv 512x2304: Split(f32[512, 2304], [768, 768, 768], axis=1, results=3)
split channels 8x64x56x56: Split(f32[8, 64, 56, 56], [32, 32], axis=1, results=2)
concat channels 256x28x28: Concat(f32[1, 256, 28, 28], f32[1, 32, 28, 28], axis=1)
concat last 512x64: Concat(f32[512, 64], f32[512, 64], f32[512, 3], axis=1)
concat cache 12x512x64: Concat(f32[12, 512, 64], f32[12, 1, 64], axis=1)
concat f16 1x256x28x28: Concat(f16[1, 256, 28, 28], f16[1, 32, 28, 28], axis=1)
pad 1x64x56x56: Pad(f32[1, 64, 56, 56], [0, 0, 1, 1, 0, 0, 1, 1])
pad reflect 32x224x224: Pad(f32[1, 32, 224, 224], [0, 0, 3, 3, 0, 0, 3, 3], mode="reflect")
pad last 1024x1000: Pad(f32[1024, 1000], [0, 0, 0, 24])
expand 1x1x128x768 to 8: Expand(f32[1, 1, 128, 768], [8, 4, 128, 768])
tile 64x300 by 4x3: Tile(f32[64, 300], [4, 3])
gather rows 50257x768: Gather(constant(f32[50257, 768]), below(50257, s64[512]))
gather 8x128 of 30522x384: Gather(constant(f32[30522, 384]), below(30522, s64[8, 128]))
gather f16 50257x768: Gather(constant(f16[50257, 768]), below(50257, s64[512]))
gather columns 1024x512: Gather(f32[1024, 512], below(512, s64[128]), axis=1)
gather elements 64x1024: GatherElements(f32[64, 1024], below(1024, s64[64, 1024]), axis=1)
gather nd 56x56x64: GatherND(f32[56, 56, 64], below(56, s64[1024, 2]))
scatter nd rows 4096x256: ScatterND(f32[4096, 256], below(4096, s64[1, 1]), f32[1, 256])
scatter elements 64x1024: ScatterElements(f32[64, 1024], below(1024, s64[64, 32]), f32[64, 32],
    axis=1, reduction="add")
one hot 4096 of 128: OneHot(below(128, s64[4096]), s64(128), [0.0, 1.0])
depth to space 1x256x64x64: DepthToSpace(f32[1, 256, 64, 64], blocksize=2)
space to depth 1x3x640x640: SpaceToDepth(f32[1, 3, 640, 640], blocksize=2)
# Reductions over every axis.
reduce sum first 1024x1024: ReduceSum(f32[1024, 1024], [0], keepdims=0)
reduce sum last 1024x1024: ReduceSum(f32[1024, 1024], [1], keepdims=0)
reduce sum all 1M: ReduceSum(f32[1024, 1024], keepdims=0)
reduce sum last 100000x7: ReduceSum(f32[100000, 7], [1], keepdims=0)
reduce sum first 50000x3: ReduceSum(f32[50000, 3], [0], keepdims=0)
reduce sum 64x50257: ReduceSum(f32[64, 50257], [1], keepdims=0)
reduce mean mid 16x512x196: ReduceMean(f32[16, 512, 196], [1], keepdims=0)
reduce mean hw 8x2048x7x7: ReduceMean(f32[8, 2048, 7, 7], [2, 3])
reduce mean hw 1x960x7x7: ReduceMean(f32[1, 960, 7, 7], [2, 3])
reduce mean nhw 8x64x56x56: ReduceMean(f32[8, 64, 56, 56], [0, 2, 3])
reduce max middle 8x128x768: ReduceMax(f32[8, 128, 768], [1], keepdims=0)
reduce max last 12x128x128: ReduceMax(f32[12, 128, 128], [2])
reduce prod first 16x4096: ReduceProd(f32[16, 4096], [0], keepdims=0)
reduce l2 last 512x768: ReduceL2(f32[512, 768], [1])
reduce logsumexp 512x1000: ReduceLogSumExp(f32[512, 1000], [1])
reduce sum f16 1024x1024: ReduceSum(f16[1024, 1024], [1], keepdims=0)
reduce sum s32 1024x1024: ReduceSum(s32[1024, 1024], [0], keepdims=0)
reduce max s64 256x4096: ReduceMax(s64[256, 4096], [1], keepdims=0)
argmax last 512x1000: ArgMax(f32[512, 1000], axis=1, keepdims=0)
argmax last 1x50257: ArgMax(f32[1, 50257], axis=1, keepdims=0)
argmax channels 21x256x256: ArgMax(f32[1, 21, 256, 256], axis=1, keepdims=0)
# Scans and selection.
cumsum last 256x4096: CumSum(f32[256, 4096], s64(1))
cumsum first 4096x256: CumSum(f32[4096, 256], s64(0))
cumsum one row 1M: CumSum(f32[1, 1048576], s64(1))
cumsum s64 mask 8x512: CumSum(s64[8, 512], s64(1))
cumsum s32 256x4096: CumSum(s32[256, 4096], s64(1))
topk 50 of 16x10000: TopK(f32[16, 10000], [50], results=2)
topk 5 of 8x1000: TopK(f32[8, 1000], [5], results=2)
topk 40 of 1x50257: TopK(f32[1, 50257], [40], results=2)
topk 300 of 1x8400 yolo: TopK(f32[1, 8400], [300], results=2)
topk 2 of 1024x8 experts: TopK(f32[1024, 8], [2], results=2)
topk middle 1x25200x4: TopK(f32[1, 25200, 4], [100], axis=1, results=2)
topk s64 10 of 64x2000: TopK(distinct(s64[64, 2000]), [10], results=2)
sort 64x4096: TopK(distinct(f32[64, 4096]), [4096], results=2)
sort 1x100000: TopK(distinct(f32[1, 100000]), [100000], results=2)
sort 4096x32: TopK(distinct(f32[4096, 32]), [32], results=2)
# Rows: softmax and norms.
softmax 12x128x128: Softmax(f32[12, 128, 128], axis=-1)
softmax 1024x1024: Softmax(f32[1024, 1024], axis=-1)
softmax 64x50257: Softmax(f32[64, 50257], axis=-1)
softmax 1x1000: Softmax(f32[1, 1000], axis=-1)
softmax 4096x10: Softmax(f32[4096, 10], axis=-1)
softmax 512x77: Softmax(f32[512, 77], axis=-1)
softmax channels 21x128x128: Softmax(f32[1, 21, 128, 128], axis=1)
softmax f16 12x128x128: Softmax(f16[12, 128, 128], axis=-1)
softmax bf16 12x128x128: Softmax(bf16[12, 128, 128], axis=-1)
log softmax 512x1000: LogSoftmax(f32[512, 1000], axis=-1)
log softmax 8x50257: LogSoftmax(f32[8, 50257], axis=-1)
layer norm 128x768: LayerNormalization(f32[128, 768], constant(f32[768]), constant(f32[768]))
layer norm 8x197x768: LayerNormalization(f32[8, 197, 768], constant(f32[768]), constant(f32[768]))
layer norm 3136x96: LayerNormalization(f32[3136, 96], constant(f32[96]), constant(f32[96]))
layer norm 1x4096: LayerNormalization(f32[1, 4096], constant(f32[4096]), constant(f32[4096]))
layer norm f16 128x768: LayerNormalization(f16[128, 768], constant(f16[768]), constant(f16[768]))
instance norm 64x112x112: InstanceNormalization(f32[1, 64, 112, 112], constant(f32[64]),
    constant(f32[64]))
batch norm 1x64x112x112: BatchNormalization(f32[1, 64, 112, 112], constant(f32[64]),
    constant(f32[64]), constant(f32[64]), positive_constant(f32[64]))
lrn 1x96x27x27: LRN(f32[1, 96, 27, 27], size=5)
lp norm 512x768: LpNormalization(f32[512, 768], axis=-1)
# Functions.
exp 1M: Exp(f32[1024, 1024])
exp 64K: Exp(f32[64, 1024])
log 1M: Log(positive(f32[1024, 1024]))
tanh 1M: Tanh(f32[1024, 1024])
tanh 4K: Tanh(f32[4096])
sigmoid 1M: Sigmoid(f32[1024, 1024])
sigmoid 1x240x28x28: Sigmoid(f32[1, 240, 28, 28])
erf 1M: Erf(f32[1024, 1024])
gelu 128x3072: Gelu(f32[128, 3072])
gelu tanh 128x3072: Gelu(f32[128, 3072], approximate="tanh")
hard swish 1x240x28x28: HardSwish(f32[1, 240, 28, 28])
mish 1x64x80x80: Mish(f32[1, 64, 80, 80])
softplus 1M: Softplus(f32[1024, 1024])
elu 1M: Elu(f32[1024, 1024])
selu 1M: Selu(f32[1024, 1024])
sqrt 1M: Sqrt(positive(f32[1024, 1024]))
reciprocal 1M: Reciprocal(positive(f32[1024, 1024]))
sin 1M: Sin(f32[1024, 1024])
cos 1M: Cos(f32[1024, 1024])
tan 1M: Tan(f32[1024, 1024])
atan 1M: Atan(f32[1024, 1024])
sinh 1M: Sinh(f32[1024, 1024])
pow 1M: Pow(positive(f32[1024, 1024]), 2.5)
square 1M: Pow(f32[1024, 1024], 2.0)
round 1M: Round(f32[1024, 1024])
exp f16 1M: Exp(f16[1024, 1024])
tanh bf16 1M: Tanh(bf16[1024, 1024])
sigmoid f16 1M: Sigmoid(f16[1024, 1024])
# Elementwise.
relu 4K: Relu(f32[4096])
relu 64K: Relu(f32[64, 1024])
relu 1x64x112x112: Relu(f32[1, 64, 112, 112])
relu f16 1M: Relu(f16[1024, 1024])
leaky relu 32x208x208: LeakyRelu(f32[1, 32, 208, 208], alpha=0.1)
prelu 1x64x112x112: PRelu(f32[1, 64, 112, 112], constant(f32[64, 1, 1]))
clip 1x96x112x112: Clip(f32[1, 96, 112, 112], 0.0, 6.0)
add 8K: Add(f32[8192], f32[8192])
add 128x768: Add(f32[128, 768], f32[128, 768])
add 1x256x56x56: Add(f32[1, 256, 56, 56], f32[1, 256, 56, 56])
add 16M: Add(f32[16, 1024, 1024], f32[16, 1024, 1024])
add row 512x3072: Add(f32[512, 3072], constant(f32[3072]))
add column 1024x1024: Add(f32[1024, 1024], f32[1024, 1])
add outer 1024x1024: Add(f32[1024, 1], f32[1, 1024])
mul channels 1x240x28x28: Mul(f32[1, 240, 28, 28], f32[1, 240, 1, 1])
mul scalar 1M: Mul(f32[1024, 1024], 0.125)
div 1M: Div(f32[1024, 1024], positive(f32[1024, 1024]))
add f16 1M: Add(f16[1024, 1024], f16[1024, 1024])
add bf16 1M: Add(bf16[1024, 1024], bf16[1024, 1024])
add s32 1M: Add(s32[1024, 1024], s32[1024, 1024])
add s64 64K: Add(s64[64, 1024], s64[64, 1024])
mul s64 64K: Mul(s64[64, 1024], s64[64, 1024])
div s32 64K: Div(s32[64, 1024], s32(7))
max u8 1M: Max(u8[1024, 1024], u8[1024, 1024])
greater 1M: Greater(f32[1024, 1024], f32[1024, 1024])
equal s64 64K: Equal(s64[64, 1024], s64(0))
where 12x128x128: Where(bool[1, 128, 128], f32[12, 128, 128], -10000.0)
and 1M: And(bool[1024, 1024], bool[1024, 1024])
cast f32 to f16 1M: Cast(f32[1024, 1024], to=10)
cast f16 to f32 1M: Cast(f16[1024, 1024], to=1)
cast f32 to bf16 1M: Cast(f32[1024, 1024], to=16)
cast bf16 to f32 1M: Cast(bf16[1024, 1024], to=1)
cast u8 to f32 1M: Cast(u8[1024, 1024], to=1)
cast f32 to u8 1M: Cast(positive(f32[1024, 1024]), to=2)
cast s64 to f32 64K: Cast(s64[64, 1024], to=1)
cast s64 to s32 64K: Cast(s64[64, 1024], to=6)
quantize 1M: QuantizeLinear(f32[1024, 1024], 0.015625, u8(128))
dequantize 1M: DequantizeLinear(u8[1024, 1024], 0.015625, u8(128))
# Pools.
max pool 3x3 s2 64x112x112: MaxPool(f32[1, 64, 112, 112], kernel_shape=[3, 3], strides=[2, 2],
    pads=[1, 1, 1, 1])
max pool 2x2 s2 8x64x56x56: MaxPool(f32[8, 64, 56, 56], kernel_shape=[2, 2], strides=[2, 2])
max pool 5x5 s1 256x20x20: MaxPool(f32[1, 256, 20, 20], kernel_shape=[5, 5], pads=[2, 2, 2, 2])
max pool 3-D 32x16x56x56: MaxPool(f32[1, 32, 16, 56, 56], kernel_shape=[2, 2, 2], strides=[2,
    2, 2])
max pool u8 s2 64x112x112: MaxPool(u8[1, 64, 112, 112], kernel_shape=[3, 3], strides=[2, 2],
    pads=[1, 1, 1, 1])
avg pool 3x3 192x28x28: AveragePool(f32[1, 192, 28, 28], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
avg pool 2x2 s2 128x56x56: AveragePool(f32[1, 128, 56, 56], kernel_shape=[2, 2], strides=[2,
    2])
global avg pool 8x2048x7x7: GlobalAveragePool(f32[8, 2048, 7, 7])
global max pool 1x512x14x14: GlobalMaxPool(f32[1, 512, 14, 14])
# Convolutions alone: input and output channels first.
conv first 3x3 s2 224x224: Conv(f32[1, 3, 224, 224], weight(f32[32, 3, 3, 3]), constant(f32[32]),
    strides=[2, 2], pads=[1, 1, 1, 1])
conv first 7x7 s2 224x224: Conv(f32[1, 3, 224, 224], weight(f32[64, 3, 7, 7]), constant(f32[64]),
    strides=[2, 2], pads=[3, 3, 3, 3])
conv patch 16x16 3x224x224: Conv(f32[1, 3, 224, 224], weight(f32[768, 3, 16, 16]),
    constant(f32[768]), strides=[16, 16])
conv 3x3 64x56x56: Conv(f32[1, 64, 56, 56], weight(f32[64, 64, 3, 3]), constant(f32[64]), pads=[1,
    1, 1, 1])
conv 3x3 512x7x7: Conv(f32[1, 512, 7, 7], weight(f32[512, 512, 3, 3]), constant(f32[512]), pads=[1,
    1, 1, 1])
conv 1x1 256x56x56: Conv(f32[1, 256, 56, 56], weight(f32[64, 256, 1, 1]), constant(f32[64]))
conv 1x1 b8 64x14x14: Conv(f32[8, 64, 14, 14], weight(f32[256, 64, 1, 1]), constant(f32[256]))
conv dilated 24 960x16x16: Conv(f32[1, 960, 16, 16], weight(f32[256, 960, 3, 3]),
    constant(f32[256]), pads=[24, 24, 24, 24], dilations=[24, 24])
conv dilated 2 256x28x28: Conv(f32[1, 256, 28, 28], weight(f32[256, 256, 3, 3]), constant(f32[256]),
    pads=[2, 2, 2, 2], dilations=[2, 2])
conv groups 32 128x56x56: Conv(f32[1, 128, 56, 56], weight(f32[128, 4, 3, 3]), constant(f32[128]),
    pads=[1, 1, 1, 1], group=32)
conv 1-D audio 512x1500: Conv(f32[1, 80, 3000], weight(f32[384, 80, 3]), constant(f32[384]),
    pads=[1, 1])
conv 1-D k10 s5 16000: Conv(f32[1, 1, 16000], weight(f32[512, 1, 10]), constant(f32[512]),
    strides=[5])
conv 3-D 32x16x16x16: Conv(f32[1, 32, 16, 16, 16], weight(f32[32, 32, 3, 3, 3]), constant(f32[32]),
    pads=[1, 1, 1, 1, 1, 1])
conv 3-D first 8x112x112: Conv(f32[1, 3, 8, 112, 112], weight(f32[64, 3, 3, 7, 7]),
    constant(f32[64]), strides=[1, 2, 2], pads=[1, 3, 3, 1, 3, 3])
conv f16 3x3 64x56x56: Conv(f16[1, 64, 56, 56], weight(f16[64, 64, 3, 3]), pads=[1, 1, 1, 1])
conv u8 3x3 64x56x56: ConvInteger(u8[1, 64, 56, 56], constant(s8[64, 64, 3, 3]), pads=[1, 1, 1, 1])
depthwise 3x3 144x56x56: Conv(f32[1, 144, 56, 56], weight(f32[144, 1, 3, 3]), constant(f32[144]),
    pads=[1, 1, 1, 1], group=144)
depthwise 3x3 s2 96x112: Conv(f32[1, 96, 112, 112], weight(f32[96, 1, 3, 3]), constant(f32[96]),
    strides=[2, 2], pads=[1, 1, 1, 1], group=96)
depthwise 5x5 240x28x28: Conv(f32[1, 240, 28, 28], weight(f32[240, 1, 5, 5]), constant(f32[240]),
    pads=[2, 2, 2, 2], group=240)
depthwise 7x7 96x56x56: Conv(f32[1, 96, 56, 56], weight(f32[96, 1, 7, 7]), constant(f32[96]),
    pads=[3, 3, 3, 3], group=96)
deconv 4x4 s2 128x32x32: ConvTranspose(f32[1, 128, 32, 32], weight(f32[128, 64, 4, 4]),
    constant(f32[64]), strides=[2, 2], pads=[1, 1, 1, 1])
deconv 2x2 s2 128x64x64: ConvTranspose(f32[1, 128, 64, 64], weight(f32[128, 64, 2, 2]),
    constant(f32[64]), strides=[2, 2])
deconv 4x4 100x1x1: ConvTranspose(f32[1, 100, 1, 1], weight(f32[100, 512, 4, 4]),
    constant(f32[512]))
deconv 3x3 s2 64x28x28: ConvTranspose(f32[1, 64, 28, 28], weight(f32[64, 32, 3, 3]),
    constant(f32[32]), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1])
# Resizing.
resize nearest 2x 128x40x40: Resize(f32[1, 128, 40, 40], None, [1.0, 1.0, 2.0, 2.0], mode="nearest",
    coordinate_transformation_mode="asymmetric", nearest_mode="floor")
resize linear 2x 64x56x56: Resize(f32[1, 64, 56, 56], None, [1.0, 1.0, 2.0, 2.0], mode="linear")
resize linear 65x65 to 513: Resize(f32[1, 21, 65, 65], None, None, [1, 21, 513, 513],
    mode="linear", coordinate_transformation_mode="align_corners")
resize cubic 2x 32x56x56: Resize(f32[1, 32, 56, 56], None, [1.0, 1.0, 2.0, 2.0], mode="cubic")
resize linear half 512x512: Resize(f32[1, 3, 512, 512], None, [1.0, 1.0, 0.5, 0.5], mode="linear")
# Recurrent layers.
lstm 64x16x512: LSTM(f32[64, 16, 512], weight(f32[1, 2048, 512]), weight(f32[1, 2048, 512]),
    constant(f32[1, 4096]), hidden_size=512)
lstm 100x1x128: LSTM(f32[100, 1, 128], weight(f32[1, 512, 128]), weight(f32[1, 512, 128]),
    constant(f32[1, 1024]), hidden_size=128)
gru 50x8x256: GRU(f32[50, 8, 256], weight(f32[1, 768, 256]), weight(f32[1, 768, 256]),
    constant(f32[1, 1536]), hidden_size=256, linear_before_reset=1)
lstm both ways 32x4x128: LSTM(f32[32, 4, 128], weight(f32[2, 512, 128]), weight(f32[2, 512, 128]),
    constant(f32[2, 1024]), hidden_size=128, direction="bidirectional")
# Matmuls of unusual shapes.
matmul shared 197x1x768: MatMul(f32[197, 1, 768], weight(f32[768, 2304]))
matmul heads 12x128x64: MatMul(f32[12, 128, 64], f32[12, 64, 128])
matmul one row 768x3072: MatMul(f32[1, 768], weight(f32[768, 3072]))
matmul f16 128x768x768: MatMul(f16[128, 768], weight(f16[768, 768]))
matmul bf16 128x768x768: MatMul(bf16[128, 768], weight(bf16[768, 768]))
matmul u8 128x768x768: MatMulInteger(u8[128, 768], constant(s8[768, 768]))
gemm bias 128x768x3072: Gemm(f32[128, 768], weight(f32[3072, 768]), constant(f32[3072]), transB=1)
"""
"""`name: call`, one case a line, which indented lines continue; `#` starts the next family."""


def op_lines() -> dict[str, str]:
    """The calls by name, in order."""
    return {name: call for family in op_families().values() for name, call in family.items()}


def op_families() -> dict[str, dict[str, str]]:
    """The same of each family, by what it is called."""
    found: dict[str, dict[str, str]] = {}
    for line in OP_CASES.strip().replace("\n    ", " ").splitlines():
        if line.startswith("#"):
            family = found.setdefault(line[2:].partition(":")[0].rstrip("."), {})
        else:
            name, call = line.split(": ", 1)
            family[name] = call
    return found
