"""PyTorch's functions as ATen has them: what every call of one means, by the name after `torch.`."""

from __future__ import annotations

from ..correspondence.reading import Pair
from ..torch_calls.op_table import CALLS, READS
from .node import Read

PAIRS = {name: Pair(read) for name, read in READS.items()}

HANDLERS: dict[str, Read] = {
    name: handler.run for name, handler in CALLS.items() if name != "round"
}
"""Functions that no row names."""
