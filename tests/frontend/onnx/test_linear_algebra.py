"""Determinants, inverses, distances and windows beside NumPy; determinants' own node cases: test_backend_cases."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import graphc
from graphc.base.errors import UserError
from graphc.frontend import load
from support.onnx_models import Array, evaluate, expected, model, node

MS = "com.microsoft"


@pytest.mark.parametrize("size", [0, 1, 5, 40])
def test_determinants(size: int, rng: np.random.Generator) -> None:
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17]>
        det (float[3,{size},{size}] x) => (float[3] y) {{ y = Det (x) }}"""
    )
    x = rng.standard_normal((3, size, size)).astype(np.float32)
    x[1] = x[1, :, ::-1]
    x[2, :1] = 0
    wanted = np.linalg.det(x.astype(np.float64))
    np.testing.assert_allclose(graphc.compile(model)(x), wanted, rtol=1e-4, atol=1e-5)


def test_inverses_distances_and_windows(rng: np.random.Generator) -> None:
    x, a, b = (rng.standard_normal(d).astype(np.float32) for d in ((2, 5, 5), (3, 4), (6, 4)))
    x[1, 0, 0] = 0  # needs another pivot
    nodes = [
        node("Inverse", "x", "inverse", domain=MS),
        node("CDist", "a b", "far", domain=MS, metric="euclidean"),
        node("CDist", "a b", "squares", domain=MS),
        node("UnfoldTensor", "a", "windows", domain=MS, size=2, step=2),
    ]
    shapes = {"x": x.shape, "a": a.shape, "b": b.shape}
    names = ["inverse", "far", "squares", "windows"]
    compiled = graphc.compile(model(nodes, shapes, outputs=names, domains=[MS]), threads=1)
    results = compiled.run(None, {"x": x, "a": a, "b": b})
    squares = ((a[:, None] - b) ** 2).sum(2)
    wanted = [np.linalg.inv(x), np.sqrt(squares), squares, a.reshape(3, 2, 2)]
    for result, one in zip(results, wanted, strict=True):
        np.testing.assert_allclose(result, one, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("op_type", "dims", "rule"),
    [
        ("Inverse", [2, 3], "the last two axes must be square, got f32[2,3]"),
        ("CDist", [2, 3, 1], "both inputs must be matrices of as many columns"),
        (
            "UnfoldTensor",
            [1, 1],
            "windows must fit the axis, with a step of 1 or more, got 2 and 1",
        ),
    ],
)
def test_what_does_not_fit(op_type: str, dims: list[int], rule: str) -> None:
    inputs = "x x" if op_type == "CDist" else "x"
    attrs = {"size": 2} if op_type == "UnfoldTensor" else {}
    with pytest.raises(UserError, match=re.escape(rule)):
        load(model([node(op_type, inputs, domain=MS, **attrs)], {"x": dims}, domains=[MS]))


@pytest.mark.parametrize("equation", ["ii->i", "...ii", "iij,j->i", "iii", "jiij->ji"])
def test_einsum_takes_diagonals(equation: str, rng: np.random.Generator) -> None:
    terms = equation.split("->")[0].split(",")
    sizes = [[3] * len(term.replace("...", "b")) for term in terms]
    feeds: dict[str, Array] = {
        name: rng.standard_normal(dims).astype(np.float32)
        for name, dims in zip("xw", sizes, strict=False)
    }
    proto = model(
        [node("Einsum", " ".join(feeds), equation=equation)],
        {name: x.shape for name, x in feeds.items()},
    )
    result = evaluate(proto, feeds)[0]
    np.testing.assert_allclose(result, expected(proto, feeds)[0], rtol=1e-5, atol=1e-5)
