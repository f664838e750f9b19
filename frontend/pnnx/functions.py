"""PyTorch's functions as PNNX has them: read as every call of one, written by this folder."""

from __future__ import annotations

from functools import partial

from ..correspondence.gathering import of_all
from ..correspondence.reading import Pair
from ..torch_calls import arithmetic, counted, lookup
from ..torch_calls import movement as parts
from ..torch_calls.call import Handler
from ..torch_calls.op_table import READS
from . import (  # noqa: F401
    activation,
    contraction,
    export_windows,
    indexing,
    movement,
    normalize,
    reduce,
    resize,
)

_WRITES = of_all(globals(), "WRITES")

PAIRS = {name: Pair(READS.get(name), _WRITES.get(name)) for name in {*READS, *_WRITES}}

_PREFIXES = ("torch.", "Tensor.", "aten::")

_SPLITS = {"chunk": "chunks", **dict.fromkeys(("split", "split_with_sizes"), "split_size")}
"""The second argument of ATen's functions that split."""

HANDLERS: dict[str, Handler] = {
    **{f"{x}{name}": call for name, call in parts.CALLS.items() for x in _PREFIXES[:2]},
    **{
        f"aten::{unsafe}{name}": Handler(parts.CALLS["split"].run, ("input", second, "dim"))
        for name, second in _SPLITS.items()
        for unsafe in ("", "unsafe_")
    },
    **{
        f"aten::{letter}split": Handler(partial(parts.split_along, axis=i), ("input", "sections"))
        for i, letter in enumerate("vhd")
    },
    "aten::numel": Handler(lambda node: node.tensor_of().details.elements),
    **{
        f"{x}{name}": call
        for name, call in {**arithmetic.CALLS, **counted.CALLS, **lookup.CALLS}.items()
        for x in _PREFIXES
    },
}
"""Functions that no row names."""
