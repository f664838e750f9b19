"""A `.param` file as data: operators with their operands, parameters, attributes and shape annotations."""

from __future__ import annotations

from dataclasses import field

from ...base.dims import Dim
from ...base.dtypes import F16, F32, F64, DType
from ...base.records import dataclass
from ..correspondence.element_types import element_types, written_names

MAGIC = "7767517"
"""The first line of every `.param` file; ncnn's own files share it."""

SUFFIX_DTYPES = element_types("pnnx-suffix")
"""Element types as `.param` files spell them after a shape."""

DTYPE_SUFFIXES = written_names(SUFFIX_DTYPES)
PART_DTYPES = {"c32": F16, "c64": F32, "c128": F64}
"""The types of the real and imaginary parts of complex numbers."""
COMPLEX_SUFFIXES = tuple(PART_DTYPES)
UNKNOWN_SUFFIX = "null"

_CODES = (
    "null", "f32", "f64", "f16", "i32", "i64", "i16", "i8", "u8", "bool", "c64", "c128", "c32", "bf16",
)  # fmt: skip


def type_code(suffix: str) -> int:
    """PNNX's number of an element type, 0 if it is unknown."""
    return _CODES.index(suffix) if suffix in _CODES else 0


def type_suffix(code: int) -> str:
    """Return the text of an element type code, in the form that follows a shape."""
    return _CODES[code]


WORD_DTYPES = element_types("pnnx")
"""Element types as parameters and expressions spell them; of several words for one, the tool writes the first."""


@dataclass(frozen=True)
class TensorType:
    """`(1,?,32)f32`: dims are numbers, or the text of a dynamic size (`?`, `%name`); `suffix` may be `null`."""

    dims: tuple[int | str, ...]
    suffix: str

    @property
    def dtype(self) -> DType | None:
        """The element type; None where it is unknown or complex."""
        return SUFFIX_DTYPES.get(self.suffix)

    @property
    def part(self) -> DType | None:
        """The type of the parts of complex numbers; None for others."""
        return PART_DTYPES.get(self.suffix)

    def __str__(self) -> str:
        return (
            f"({','.join('?' if isinstance(d, Dim) else str(d) for d in self.dims)}){self.suffix}"
        )


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
