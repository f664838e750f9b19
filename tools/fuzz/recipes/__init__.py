"""Recipes that add an op, or a pattern that the compiler looks for, to a random graph, by name."""

from __future__ import annotations

from collections.abc import Callable

from ..scope import Scope
from . import (
    contractions,
    control,
    elementwise,
    fusion,
    indexing,
    linear_algebra,
    movement,
    narrow_types,
    normalization,
    quantization,
    reductions,
    trees,
    windows,
)

Recipe = Callable[[Scope], None]
"""Appends an op or several to the scope's graph. Raise UserError if nothing fits."""

_FAMILIES: tuple[tuple[dict[str, Recipe], int], ...] = (
    (elementwise.RECIPES, 26),
    (movement.RECIPES, 16),
    (reductions.RECIPES, 13),
    (contractions.RECIPES, 8),
    (quantization.RECIPES, 4),
    (narrow_types.RECIPES, 2),
    (windows.RECIPES, 11),
    (normalization.RECIPES, 6),
    (indexing.RECIPES, 6),
    (control.RECIPES, 5),
    (trees.RECIPES, 1),
    (fusion.RECIPES, 14),
    (linear_algebra.RECIPES, 2),
)
"""Recipes, and how often one of each family is taken."""

RECIPES: dict[str, Recipe] = {name: r for family, _ in _FAMILIES for name, r in family.items()}
"""Every recipe by its name: the op's, or a pattern's in words."""

WEIGHTS = {name: often / len(family) for family, often in _FAMILIES for name in family}
"""Relative frequency of each recipe."""

NOT_MADE = {
    "count_up": "its length is a dynamic size",
    "dynamic_sizes": "sizes of random graphs are numbers",
    "align_regions": "a sample next to the border of an image counts or does not",
    **dict.fromkeys(("svd", "eigh"), "vectors of nearly equal values are any of a space"),
    "suppress_boxes": "a box near the limit of overlap decides all that follow it",
    "true_indices": "how many there are decides sizes",
    "count": "sizes of random graphs are numbers",
    "counted_rows": "sizes of random graphs are numbers",
    "room_for": "sizes of random graphs are numbers",
    "input": "made with the tensors that recipes read",
    "constant": "made with the tensors that recipes read",
    "output": "made for what nothing reads",
    "fused": "made by the pass fuse, of the ops of other recipes",
    "kernel_call": "needs a kernel of user code",
    "div_constant": "made by the pass divide_by_constants, of divisors that it has checked",
    "scaled_sum": "made by the pass scale_sums_once, of sums of bytes that it has checked",
    "round_saturate": "made of quantize, whose recipes give it all its bounds",
    "byte_table": "made by the pass tabulate_bytes, of functions of bytes",
    "repeat": "made of resize, whose recipes resize to multiples too",
    "sort_rows": "made by the pass sort_long_rows, of top_k along long axes",
    "reorder": "made by the pass propagate_layouts; graphs that are read have plain layouts",
    "cached_attention": "its lengths must fit caches that are as long",
    "masked_trees": "made by the pass mask_trees, of trees",
    "matmul_nbits": "made by the pass pack_weights, of matmuls with dequantized constants",
    "update_in_place": "made by the pass of that name: whoever runs it must see to the memory",
    "direct_convolution": "a form of convolution that the pass select_convolution_algorithm chooses",
    "depthwise_convolution": "a form of convolution that the pass select_convolution_algorithm chooses",
    "winograd_convolution": "a form of convolution that the pass select_convolution_algorithm chooses",
    "winograd_weights": "a form of convolution that the pass select_convolution_algorithm chooses",
}
"""Ops without a recipe, and why."""
