"""The examples compiled once for any size beside those compiled for each: batches, and lengths where they are of text.

The router of experts is none of them: its constants say for how many tokens and experts it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import graphc
from graphc.base.dims import evaluate
from graphc.base.records import dataclass
from graphc.bench.dynamic_case import dynamic_model
from graphc.frontend.shape_spec import parse_inputs

FOLDER = Path(__file__).parents[2] / "examples"

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class DynamicExample:
    """A model with dynamic sizes, the types of all its inputs, and five values of its sizes.

    One, two, odd, a register tile of 12 rows more or less one, and large.
    """

    model: bytes | Path
    types: Mapping[str, str]
    sizes: Sequence[Sizes]


BATCHES = [{"B": number} for number in (1, 2, 5, 13, 512)]
TEXTS = [
    {"B": batch, "S": length} for batch, length in ((1, 1), (2, 2), (3, 5), (11, 13), (16, 128))
]


def dynamic_example(name: str, folder: Path) -> DynamicExample:
    """The example of this file name; a file that needs others beside it is written to `folder`."""
    path = FOLDER / name
    if name == "mlp.onnx":
        types = {"x": "f32[B,13]"}
        return DynamicExample(dynamic_model(path.read_bytes(), types), types, BATCHES)
    if name == "mha.onnx":
        types = {"x": "f32[B,S,64]", "mask": "f32[B,1,1,S]"}
        return DynamicExample(dynamic_model(path.read_bytes(), types), types, TEXTS)
    if name == "linear.pnnx.param":
        opened = folder / name
        opened.write_text(path.read_text().replace("(4,", "(?,"))
        shutil.copy(path.with_suffix(".bin"), opened.with_suffix(".bin"))
        return DynamicExample(opened, {"pnnx_input_0": "f32[B,32]"}, BATCHES)
    if name == "block.hlo":
        text = path.read_text().replace("[16,", "[<=512,").replace("[16]", "[<=512]")
        # A scalar is repeated to a number that is known.
        text = text.replace("[<=512]{0} broadcast(%count)", "[512]{0} broadcast(%count)")
        weights = {"w1": "f32[32,48]", "b1": "f32[48]", "w2": "f32[48,32]"}
        # Up to four rows have sums of their own, as the weights are inputs.
        sizes = [{"B": number} for number in (5, 7, 11, 13, 512)]
        return DynamicExample(text.encode(), {"x": "f32[B,32]"} | weights, sizes)
    assert name == "branch_and_loop.txt"
    return DynamicExample(path, {"input_0": "f32[B,S]", "pred_1": "bool[]"}, TEXTS)


EXAMPLES = ("mlp.onnx", "mha.onnx", "linear.pnnx.param", "block.hlo", "branch_and_loop.txt")


def differing_sizes(example: DynamicExample, sizes: Sequence[Sizes]) -> list[Sizes]:
    """The sizes at which the model of any size has other bits than the one of that size."""
    anyone = graphc.compile(example.model, threads=1, inputs=example.types)
    return [one for one in sizes if _bits(anyone, example, one) != _bits(None, example, one)]


def _bits(model: graphc.CompiledModel | None, example: DynamicExample, sizes: Sizes) -> list[bytes]:
    """The bits of all results at these sizes, of a model or of the one compiled for them."""
    rng = np.random.default_rng(1)
    arrays, types = {}, {}
    for name, spec in parse_inputs(example.types).items():
        shape = tuple(evaluate(dim, sizes) for dim in spec.dims)
        arrays[name] = np.asarray(rng.standard_normal(shape)).astype(spec.dtype.numpy)
        types[name] = f"{spec.dtype}[{','.join(map(str, shape))}]"
    model = model or graphc.compile(example.model, threads=1, inputs=types)
    found = model(**arrays)
    return [one.tobytes() for one in (found if isinstance(found, tuple) else (found,))]
