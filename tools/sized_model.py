"""A model of dynamic sizes, at the sizes of one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..driver.artifact import input_specs
from ..graph_ir.ir.graph import Graph
from ..graph_ir.lowering.lower_graph import graph_symbols
from ..graph_ir.rewriting.known_sizes import with_sizes
from ..runtime.metadata import Metadata
from ..runtime.sizes import call_sizes


def sizes_of_call(model: Graph, arrays: Mapping[str, Any]) -> dict[str, int]:
    """The dynamic sizes, by name, for these inputs by name, with typical room for counts that nothing limits.

    Raise UserError if they do not fit.
    """
    symbols = graph_symbols(model)
    if not symbols:
        return {}
    metadata = Metadata(model.name, input_specs(model), (), 0, "", sizes=symbols)
    rooms = {symbol.name: symbol.typical for symbol in model.rooms}
    return call_sizes(metadata, arrays) | rooms  # in the order that code takes them


def sized_model(model: Graph, arrays: Mapping[str, Any]) -> Graph:
    """The model with the sizes of these inputs for its dynamic ones. Raise UserError if they do not fit."""
    return with_sizes(model, sizes_of_call(model, arrays))
