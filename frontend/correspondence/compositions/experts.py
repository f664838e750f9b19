"""Mixtures of experts: each row goes through the k experts that its router prefers.

Rows are sorted by expert (a counting sort: their number may be dynamic), so that each expert is one matrix of a grouped
matmul.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....base.dtypes import S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import GraphTensor
from ...op_builder import OpBuilder
from .contraction import grouped_matmul
from .indexing import positions


@dataclass(frozen=True)
class ExpertLayer:
    """Weights [experts, outputs, inputs] and the bias [experts, outputs], if there is one."""

    weights: GraphTensor
    bias: GraphTensor | None


@dataclass(frozen=True)
class PackedLayer:
    """Weights that stay packed: the operands of `matmul_nbits` between the rows and `expert`, and its attributes."""

    operands: tuple[GraphTensor, ...]
    attrs: Mapping[str, Any]
    bias: GraphTensor | None

    @property
    def weights(self) -> GraphTensor:
        """The words [experts, outputs, bytes]."""
        return self.operands[0]


@dataclass(frozen=True)
class Routes:
    """Rows in the order of their experts: `rows` names the token of each, `experts` its expert, s64 [tokens * k].

    `slots`: where the k rows of each token are, s64 [tokens * k].
    """

    rows: GraphTensor
    experts: GraphTensor
    slots: GraphTensor
    weights: GraphTensor

    def joined(self, node: OpBuilder, y: GraphTensor) -> GraphTensor:
        """Return the weighted sums [tokens, columns] of the results of the k experts of each token."""
        tokens, k = self.weights.details.plain_dims
        apart = node.helper("gather", y, self.slots, axis=0)
        apart = node.reshaped(apart, (tokens, k, y.details.plain_dims[1]))
        scaled = node.helper("mul", apart, node.reshaped(self.weights, (tokens, k, 1)))
        return node.helper("reduce_sum", scaled, axes=(1,), keep_dims=False)

    def through(
        self, node: OpBuilder, x: GraphTensor, layer: ExpertLayer | PackedLayer
    ) -> GraphTensor:
        """Return the rows times the matrices of their experts, plus their biases."""
        if isinstance(layer, PackedLayer):
            y = node.helper("matmul_nbits", x, *layer.operands, self.experts, **layer.attrs)
        else:
            y = grouped_matmul(node, x, node.transposed(layer.weights, (0, 2, 1)), self.experts)
        if layer.bias is None:
            return y
        bias = node.converted(layer.bias, y.details.dtype)
        return node.helper("add", y, node.helper("gather", bias, self.experts, axis=0))


def routes_of(node: OpBuilder, weights: GraphTensor, chosen: GraphTensor, experts: int) -> Routes:
    """Return the routes of tokens to their experts `chosen`, s64 [tokens, k], with `weights` [tokens, k]."""
    tokens, k = chosen.details.plain_dims
    assert isinstance(k, int)
    flat = node.reshaped(chosen, (tokens * k, 1))
    mine = node.converted(node.helper("eq", flat, positions(node, experts, 1, 2)), S64)
    counted = node.helper("cum_sum", mine, axis=0)
    counts = node.helper("reduce_sum", mine, axes=(0,), keep_dims=False)
    starts = node.helper("cum_sum", counts, axis=0, exclusive=True)
    begins = node.helper("gather", starts, flat, axis=0)
    before = node.helper(
        "sub", node.helper("gather_elements", counted, flat, axis=1), node.constant(1, S64)
    )
    slots = node.reshaped(node.helper("add", begins, before), (tokens * k,))
    numbers = positions(node, tokens * k, 0, 1)
    order = node.helper(
        "scatter", slots, node.helper("mul", numbers, node.constant(0, S64)), numbers
    )
    rows = node.helper("div", order, node.constant(k, S64), rounding="floor") if k > 1 else order
    sorted_experts = node.helper("gather", node.reshaped(chosen, (tokens * k,)), order, axis=0)
    return Routes(rows, sorted_experts, slots, weights)
