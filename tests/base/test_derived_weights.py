"""Constants that are made of stored weights: transformed, in layouts with padding, and bit by bit as when compiled."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.derived_weights import Derivation, transform_weights
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.winograd_form import BYTE_FORMS, FORMS, WinogradForm
from graphc.runtime.artifact import Artifact

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    "form", [*FORMS.values(), *BYTE_FORMS.values()], ids=lambda form: form.name
)
def test_transforms_are_the_matmuls_of_their_matrices(form: WinogradForm) -> None:
    is_bytes = form.operand.numpy == np.int16
    w = RANDOM.integers(-128, 128, (5, 3, 3, 3)).astype(np.int8 if is_bytes else np.float32)
    g = form.weight_matrix()
    made = np.empty((len(g) ** 2, 3, 5), form.operand.numpy)
    transform_weights(w, g, made)
    wanted = np.einsum("ia,jb,ocab->ijco", g, g, w.astype(np.float64)).reshape(made.shape)
    np.testing.assert_allclose(made, wanted, rtol=1e-7, atol=0 if is_bytes else 1e-5)


def network(batch: Size) -> Graph:
    """Two convolutions of 64 channels; with a dynamic batch, each in several forms."""
    graph, random = Graph("network"), np.random.default_rng(1)
    x = graph.make_input(LogicalTensor(F32, (batch, 64, 14, 14)), "x")
    for number in range(2):
        w = random.standard_normal((64, 64, 3, 3)).astype(np.float32)
        read = [x, graph.make_constant(w, f"w{number}")]
        x = graph.make("convolution", read, {"before": (1, 1), "after": (1, 1)}).outputs[0]
    graph.make_output(x, "y")
    return graph


@pytest.mark.parametrize("form", ["f2", "f4"])
def test_a_file_holds_weights_once_and_loads_the_same_bits(form: str, tmp_path: Path) -> None:
    options = CompileOptions(1, winograd=form)
    artifact = compile_stages(network(1), options=options).artifact
    weights = 2 * 64 * 64 * 9 * 4
    assert len(artifact.derivations) == 2 and artifact.constants.size > 1.7 * weights
    for path in (tmp_path / "a.gcm", tmp_path / "b.gcm"):
        artifact.save(path)
        assert path.stat().st_size < 1.3 * weights + 200_000
        artifact = Artifact.load(path)  # and is saved again
        np.testing.assert_array_equal(
            artifact.constants, compile_stages(network(1), options=options).artifact.constants
        )
    assert (tmp_path / "a.gcm").read_bytes() == (tmp_path / "b.gcm").read_bytes()
    assert Artifact.read_metadata(tmp_path / "a.gcm") == artifact.metadata


def test_every_form_of_a_dynamic_batch_is_made_of_the_same_weights(tmp_path: Path) -> None:
    graph = network(size(Symbol("N")))
    model = graphc.compile(graph, threads=1)
    model.save(tmp_path / "m.gcm")
    loaded = graphc.load(tmp_path / "m.gcm", threads=1)
    for batch in (1, 5):
        x = RANDOM.standard_normal((batch, 64, 14, 14)).astype(np.float32)
        np.testing.assert_array_equal(loaded(x), model(x))
    artifact = Artifact.load(tmp_path / "m.gcm")
    if len(artifact.derivations) > 2:  # a matter of this machine's rates
        assert len({one.source for one in artifact.derivations}) == 2


def test_layouts_with_padding_and_json() -> None:
    w = np.arange(5 * 3, dtype=np.float32).reshape(5, 3)
    one = Derivation(64, 0, (5, 3), "float32", (), "float32", (3, 0), (2, 4, 3), (0, 2, 1))
    assert Derivation.from_json(asdict(one)) == one and one.size == 96
    constants = np.zeros(64 + one.size, np.uint8)
    one.write(w.reshape(-1).view(np.uint8), constants, np.empty(0, np.uint8))
    padded = np.pad(w, ((0, 3), (0, 0))).reshape(2, 4, 3).transpose(0, 2, 1)
    np.testing.assert_array_equal(constants[64:].view(np.float32), padded.reshape(-1))


def test_a_corrupt_derivation_is_refused(tmp_path: Path) -> None:
    artifact = compile_stages(network(1), options=CompileOptions(1, winograd="f2")).artifact
    wrong = artifact.derivations[0].__class__(**{**asdict(artifact.derivations[0]), "dims": (7, 7)})
    broken = Artifact(
        artifact.metadata, artifact.constants, artifact.object_code, artifact.support_code,
        derivations=(wrong, *artifact.derivations[1:]), sources=artifact.sources,
    )  # fmt: skip
    broken.save(tmp_path / "m.gcm")
    with pytest.raises(UserError, match="'derived' is corrupt"):
        Artifact.load(tmp_path / "m.gcm")
