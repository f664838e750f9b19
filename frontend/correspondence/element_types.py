"""Names of element types in every format: a line per type; of several names the first one is written."""

from __future__ import annotations

from ...base.dtypes import DType, by_name

_NAMES = """
    type  onnx  ge             tvm         hlo   pnnx-suffix  pnnx
    f64   11    11/DT_DOUBLE   float64     f64   f64          torch.double/torch.float64
    f32   1     0/DT_FLOAT     float32     f32   f32          torch.float/torch.float32
    f16   10    1/DT_FLOAT16   float16     f16   f16          torch.half/torch.float16
    bf16  16    27/DT_BF16     bfloat16    bf16  bf16         torch.bfloat16
    s8    3     2/DT_INT8      int8        s8    i8           torch.int8
    s16   5     6/DT_INT16     int16       s16   i16          torch.short/torch.int16
    s32   6     3/DT_INT32     int32       s32   i32          torch.int/torch.int32
    s64   7     9/DT_INT64     int64       s64   i64          torch.long/torch.int64
    u8    2     4/DT_UINT8     uint8       u8    u8           torch.uint8
    u16   4     7/DT_UINT16    uint16      u16   -            -
    u32   12    8/DT_UINT32    uint32      u32   -            -
    u64   13    10/DT_UINT64   uint64      u64   -            -
    bool  9     12/DT_BOOL     bool/uint1  pred  bool         torch.bool
    f8e4m3fn    17  36/DT_FLOAT8_E4M3FN  -  f8e4m3fn    -  torch.float8_e4m3fn
    f8e4m3fnuz  18  -                    -  f8e4m3fnuz  -  torch.float8_e4m3fnuz
    f8e5m2      19  35/DT_FLOAT8_E5M2    -  f8e5m2      -  torch.float8_e5m2
    f8e5m2fnuz  20  -                    -  f8e5m2fnuz  -  torch.float8_e5m2fnuz
    f8e8m0fnu   24  37/DT_FLOAT8_E8M0    -  f8e8m0fnu   -  torch.float8_e8m0fnu
    f4e2m1fn    23  40/DT_FLOAT4_E2M1    -  f4e2m1fn    -  -
    s4          22  29/DT_INT4           -  s4          -  -
    u4          21  -                    -  u4          -  -
    s2          26  31/DT_INT2           -  s2          -  -
    u2          25  32/DT_UINT2          -  u2          -  -
"""


def element_types(format_name: str) -> dict[str, DType]:
    """A format's names of element types to the types; numbers are decimal digits."""
    header, *lines = (line.split() for line in _NAMES.split("\n") if line.strip())
    column = header.index(format_name)
    cells = ((by_name(line[0]), line[column]) for line in lines)
    return {name: dtype for dtype, names in cells if names != "-" for name in names.split("/")}


def written_names(types: dict[str, DType]) -> dict[DType, str]:
    """Return the name each type is written as: the first of its names."""
    return {dtype: name for name, dtype in reversed(types.items())}
