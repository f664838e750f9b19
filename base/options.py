"""Options of one compilation: frozen, passed as an argument, never global."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from .errors import UserError
from .memory_limit import MemoryLimit
from .records import dataclass
from .suggestion import suggestion


@dataclass(frozen=True)
class Switch:
    """An optimization that `-X no-NAME` turns off, and the test, below tests/, that it changes no result."""

    meaning: str
    test: str


SWITCHES = {
    "fold": Switch(
        "evaluate ops whose inputs are all constant",
        "graph_ir/test_convolution_network.py::test_switches_do_not_change_the_result",
    ),
    "cse": Switch(
        "merge equal ops",
        "driver/test_on_and_off.py::test_on_and_off_agree",
    ),
    "simplify": Switch(
        "rewrite algebraic identities",
        "driver/test_on_and_off.py::test_on_and_off_agree",
    ),
    "recompose": Switch(
        "recognize softmax, layer norm, GELU and others that exporters decomposed",
        "driver/test_on_and_off.py::test_on_and_off_agree",
    ),
    "quantized": Switch(
        "compute on quantized tensors in integers",
        "frontend/onnx/test_quantized_models.py::test_integers_change_nothing_but_roundings",
    ),
    "packed-weights": Switch(
        "keep 4-bit and 8-bit weights packed until they are multiplied by floats",
        "graph_ir/passes/test_pack_weights.py::test_explained_and_off",
    ),
    "fixed-point": Switch(
        "multiply f32 rows by packed weights in fixed point, if the CPU has dot products of bytes",
        "graph_ir/templates/test_fixed_point_rows.py::test_the_switch_turns_it_off_and_changes_rounding_only",
    ),
    "blocked-layouts": Switch(
        "let `propagate_layouts` choose blocked formats",
        "graph_ir/test_convolution_network.py::test_switches_do_not_change_the_result",
    ),
    "direct-convolution": Switch(
        "convolve tap by tap, channels last, instead of im2col and a matmul",
        "graph_ir/test_convolution_network.py::test_switches_do_not_change_the_result",
    ),
    "channel-windows": Switch(
        "run depthwise convolutions and pools channels last, without materializing padding",
        "graph_ir/passes/test_pad_windows.py::test_native_behind_a_convolution",
    ),
    "row-windows": Switch(
        "run depthwise convolutions and pools channels first where images are given so",
        "graph_ir/templates/test_row_windows.py::test_exact_on_integers",
    ),
    "split-loops": Switch(
        "peel the edges of padded and concatenated rows into loops of their own",
        "graph_ir/ops/test_pad.py::test_edges_apart_or_inside_of_the_loop",
    ),
    "column-blocks": Switch(
        "reduce columns in blocks whose accumulators stay in L1",
        "graph_ir/templates/test_reduction.py::test_every_way_gives_the_same",
    ),
    "row-blocks": Switch(
        "interleave several rows of softmax and norms",
        "graph_ir/templates/test_row_panel.py::test_rows_interleaved_or_one_at_a_time",
    ),
    "next-rows": Switch(
        "prefetch the next rows of softmax and the like while exponentials of these are computed",
        "graph_ir/templates/test_row_panel.py::test_next_rows_are_prefetched_or_not",
    ),
    "shuffled-rows": Switch(
        "repeat elements of rows by vector shuffles",
        "graph_ir/templates/test_repeat_rows.py::test_shuffled_or_one_at_a_time",
    ),
    "masked-trees": Switch(
        "evaluate all conditions of small decision trees in vectors of rows, instead of walking",
        "graph_ir/passes/test_mask_trees.py::test_masks_reach_the_leaves_of_walks",
    ),
    "sort-rows": Switch(
        "radix-sort long rows, and select before sorting if few elements are kept",
        "graph_ir/passes/test_sort_long_rows.py::test_on_and_off_agree",
    ),
    "double-windows": Switch(
        "reduce large windows in passes over runs of 1, 2, 4, ... elements",
        "graph_ir/passes/test_double_windows.py::test_off_and_on_agree",
    ),
    "winograd": Switch(
        "run 3 x 3 convolutions as Winograd convolutions: fewer multiplications, larger rounding errors",
        "driver/test_on_and_off.py::test_on_and_off_agree",
    ),
    "byte-winograd": Switch(
        "run 8-bit 3 x 3 convolutions as Winograd convolutions in integers, without error",
        "graph_ir/templates/test_winograd_bytes.py::test_the_switch_changes_no_bit",
    ),
    "keep-f32": Switch(
        "leave in f32 the matmuls and convolutions that a lower precision would slow down",
        "driver/test_on_and_off.py::test_on_and_off_agree",
    ),
    "shared-rounding": Switch(
        "read rounded everywhere what matmuls of a lower precision read rounded, so that it is stored in 16 bits",
        "graph_ir/passes/test_share_rounded.py::test_a_maximum_is_taken_of_rounded_numbers",
    ),
    "wide-weights": Switch(
        "store bytes as 16-bit numbers if the CPU multiplies in 16 bits and many rows meet them",
        "graph_ir/passes/test_widen_weights.py::test_the_switch_changes_no_bit",
    ),
    "float-sums": Switch(
        "accumulate multiplied bytes in f32 where that is exact and faster",
        "graph_ir/passes/test_sum_bytes_in_floats.py::test_the_switch_changes_no_bit",
    ),
    "joint-scales": Switch(
        "rescale two bytes before their sum where no pair of values shows the difference",
        "graph_ir/passes/test_scale_sums_once.py::test_the_switch_changes_no_bit",
    ),
    "bounds": Switch(
        "omit clamps that values cannot reach before they become bytes",
        "graph_ir/passes/test_bound_quotients.py::test_the_switch_changes_no_bit",
    ),
    "fuse": Switch(
        "fuse elementwise chains into each other and into matmul epilogues",
        "graph_ir/test_convolution_network.py::test_switches_do_not_change_the_result",
    ),
    "amx": Switch(
        "multiply bytes and 16-bit floats in the CPU's tile registers",
        "driver/test_models_on_tiles.py::test_the_switch_changes_no_bit_of_integers",
    ),
    "in-place": Switch(
        "let the memory planner reuse buffers",
        "graph_ir/test_convolution_network.py::test_switches_do_not_change_the_result",
    ),
}
"""The optimizations that can be turned off, by name."""

WINOGRAD = ("auto", "f2", "f4")
"""The Winograd form: the cost model's choice per convolution, or one form wherever it applies."""

LAYOUTS = ("auto", "blocked")
"""Layouts of matmuls and convolutions: the cheapest, or blocked wherever possible."""

PRECISIONS = ("f32", "bf16", "f16", "int8", "int4")
"""Compute dtypes of matmuls and convolutions in f32 models: f32, 16-bit operands, int8, 4-bit weights."""

ACTIVATIONS = ("exact", "q8")
"""Activations that meet packed weights: f32, or rounded to 8 bits in groups of 32."""


@dataclass(frozen=True)
class CompileOptions:
    """Options of a compilation.

    Args:
        threads: Number of threads.
        disabled: Optimizations that are turned off (`-X no-fuse`).
        dump_dir: Folder for the text of every stage that changed.
        verify: Check the graph after every pass, and the final loops (in the Python API and the commands:
            GRAPHC_VERIFY).
        winograd: One of `WINOGRAD` (`-X winograd=f4`).
        max_memory: The most memory that the model may need to run; None takes what this process may use.
        precision: One of `PRECISIONS`.
        check_bounds: Check every access and report the first that is out of bounds, on one thread and several times
            slower (`-X check-bounds`).
        layout: One of `LAYOUTS` (`-X layout=blocked`).
        activations: One of `ACTIVATIONS`.
    """

    threads: int = 1
    disabled: frozenset[str] = frozenset()
    dump_dir: Path | None = None
    verify: bool = True
    winograd: str = "auto"
    max_memory: MemoryLimit | None = None
    precision: str = "f32"
    check_bounds: bool = False
    layout: str = "auto"
    activations: str = "exact"

    def as_text(self) -> dict[str, str]:
        """Return the options that affect the output, as the command line spells their values."""
        return {
            "threads": str(self.threads),
            "disabled": ",".join(sorted(self.disabled)),
            "precision": self.precision,
            "activations": self.activations,
            "winograd": self.winograd,
            "layout": self.layout,
            "check_bounds": str(self.check_bounds).lower(),
        }

    def __post_init__(self) -> None:
        unknown = sorted(self.disabled - set(SWITCHES))
        if unknown:
            meant = suggestion(unknown[0], tuple(SWITCHES)) or f"known are {', '.join(SWITCHES)}"
            raise UserError(f"switch '{unknown[0]}' is not known; {meant}")
        if self.winograd not in WINOGRAD:
            raise UserError(f"winograd must be one of {', '.join(WINOGRAD)}, got '{self.winograd}'")
        if self.layout not in LAYOUTS:
            raise UserError(f"layout must be one of {', '.join(LAYOUTS)}, got '{self.layout}'")
        if self.precision not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise UserError(f"precision must be one of {known}, got '{self.precision}'")
        if self.activations not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise UserError(f"activations must be one of {known}, got '{self.activations}'")
        if self.threads < 1:
            raise UserError(f"threads must be at least 1, got {self.threads}")

    def enabled(self, switch: str) -> bool:
        """Return whether an optimization is on."""
        return switch not in self.disabled


def verify_requested(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether GRAPHC_VERIFY requests checks of every stage: off by default, as they take time."""
    return environ.get("GRAPHC_VERIFY", "") not in ("", "0")
