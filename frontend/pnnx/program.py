"""A `.param` file as data: operators with their operands, parameters, attributes and shape annotations."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...base import dtypes
from ...base.dtypes import DType

MAGIC = "7767517"
"""The first line of every `.param` file; ncnn's own files share it."""

SUFFIX_DTYPES: dict[str, DType] = {
    "f32": dtypes.F32,
    "f64": dtypes.F64,
    "f16": dtypes.F16,
    "bf16": dtypes.BF16,
    "i64": dtypes.S64,
    "i32": dtypes.S32,
    "i16": dtypes.S16,
    "i8": dtypes.S8,
    "u8": dtypes.U8,
    "bool": dtypes.BOOL,
}
"""Element types as `.param` files spell them after a shape."""

COMPLEX_SUFFIXES = ("c32", "c64", "c128")
UNKNOWN_SUFFIX = "null"

WORD_DTYPES: dict[str, DType] = {
    "torch.float": dtypes.F32,
    "torch.float32": dtypes.F32,
    "torch.double": dtypes.F64,
    "torch.float64": dtypes.F64,
    "torch.half": dtypes.F16,
    "torch.float16": dtypes.F16,
    "torch.bfloat16": dtypes.BF16,
    "torch.long": dtypes.S64,
    "torch.int64": dtypes.S64,
    "torch.int": dtypes.S32,
    "torch.int32": dtypes.S32,
    "torch.short": dtypes.S16,
    "torch.int16": dtypes.S16,
    "torch.int8": dtypes.S8,
    "torch.uint8": dtypes.U8,
    "torch.bool": dtypes.BOOL,
}
"""Element types as parameters and expressions spell them; of several words for one, the tool writes the first."""


@dataclass(frozen=True)
class TensorType:
    """`(1,?,32)f32`: dims are numbers, or the text of what is open (`?`, `%name`); `suffix` may be `null`."""

    dims: tuple[int | str, ...]
    suffix: str

    @property
    def dtype(self) -> DType | None:
        """The element type; None where it is unknown or complex."""
        return SUFFIX_DTYPES.get(self.suffix)

    def __str__(self) -> str:
        return f"({','.join(map(str, self.dims))}){self.suffix}"


@dataclass(frozen=True)
class Operator:
    """One line. `params` are texts as in the file; `keys` are (key, operand) of `$`; `types` come from `#`."""

    type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, TensorType] = field(default_factory=dict)
    keys: tuple[tuple[str, str], ...] = ()
    types: dict[str, TensorType] = field(default_factory=dict)
    line: int = 0

    def __str__(self) -> str:
        return f"{self.type} '{self.name}'"


@dataclass(frozen=True)
class Program:
    """All operators in file order; `label` names the file in messages."""

    operators: tuple[Operator, ...]
    label: str
