"""One way to lay out what an op reads and makes."""

from __future__ import annotations

from ...base.records import dataclass
from ..ir.format import Format


@dataclass(frozen=True)
class FormatChoice:
    """The formats of an op's inputs and outputs.

    `cost` is the op's own extra cost compared with its best choice, in bytes moved (a copy into panels). One
    `on_request` is only taken where the options ask for such layouts (`layout="blocked"`).
    """

    inputs: tuple[Format, ...]
    outputs: tuple[Format, ...]
    cost: float = 0.0
    on_request: bool = False
