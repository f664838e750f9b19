"""A GGUF file as the graph of its decoder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...base.dims import Size, Symbol, bounds, size
from ...base.dtypes import F32
from ...graph_ir.ir.graph import Graph
from ..decoder.caches import caches
from ..decoder.graph import EMBEDDINGS, ROWS, decoder_graph
from ..shape_spec import InputSpec, check_inputs
from .decoder import decoder_config
from .split import read_gguf

MAX_NEW = 512
"""New tokens of a call, unless inputs say otherwise."""


def load_gguf(path: Path, inputs: Mapping[str, InputSpec]) -> Graph:
    """Return the decoder's graph, for as many tokens as `inputs` say. May raise UserError or UnsupportedError.

    The default: up to `MAX_NEW` new tokens, and as many old ones as the model was made for. Caches have the type of the
    first one.
    """
    file = read_gguf(path)
    context = file.integer(f"{file.text('general.architecture')}.context_length", min_value=1)
    new = _size_of(inputs, EMBEDDINGS, 1) or size(Symbol("T", 1, MAX_NEW))
    kept = caches(decoder_config(file, context), F32)
    past, window = (
        next((_size_of(inputs, one.past, 2) for one in kept if one.is_local == is_local), None)
        for is_local in (False, True)
    )
    if past is None:
        past = size(Symbol("P", 0, context - 1))
    config = decoder_config(file, max(bounds(past)[1] + 1, bounds(new)[1]))
    first = inputs.get(kept[0].past)
    cache = F32 if first is None else first.dtype
    wanted = _size_of(inputs, ROWS, 0)
    graph = decoder_graph(config, file.tensors, new, past, cache, window, wanted)
    check_inputs(graph, inputs)
    return graph


def _size_of(inputs: Mapping[str, InputSpec], name: str, axis: int) -> Size | None:
    """The size that a spec gives an axis of an input; None where there is no such spec."""
    spec = inputs.get(name)
    return spec.dims[axis] if spec is not None and len(spec.dims) > axis else None
