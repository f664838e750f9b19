"""The optimized graph of an artifact: its text, with constants taken from the artifact's own memory."""

from __future__ import annotations

from ..base.errors import UserError
from ..graph_ir.ir.graph import Array, Graph
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.text.parser import parse_graph
from ..graph_ir.text.text_grammar import read_tensor
from ..runtime.artifact import Artifact


def artifact_graph(artifact: Artifact) -> Graph:
    """The graph as the passes left it. Raise UserError for a file of a version that did not keep it."""
    if not artifact.graph:
        raise UserError(
            f"{artifact.label}: an artifact of this version holds no graph; compile the model again"
        )

    def read(text: str, details: LogicalTensor) -> Array:
        if not text.startswith("[@"):
            return read_tensor(text, details)
        begin = int(text[2:-1])
        data = artifact.constants[begin : begin + details.size_bytes]
        if data.nbytes != details.size_bytes:
            raise UserError(
                f"{artifact.label}: constant {text} must lie inside its constants; compile the model again"
            )
        packed = data.view(details.dtype.numpy)
        return details.format.unpack(packed, details.plain_dims)

    return parse_graph(artifact.graph, read)
