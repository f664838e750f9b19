"""HLO text for tests: a module around a few instructions, and running it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.frontend.hlo import import_hlo, parse_hlo

ADD = "add_f32 {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = f32[] add(a, b)\n}\n\n"


def module(body: str, before: str = "") -> str:
    """A module whose entry holds the lines of `body`, after the computations `before`."""
    lines = "\n".join(f"  {line.strip()}" for line in body.strip().splitlines())
    return f"HloModule m\n\n{before}ENTRY e {{\n{lines}\n}}\n"


def run(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """The results of a module's graph, by the references of its ops."""
    return import_hlo(parse_hlo(text)).evaluate(inputs)


def one_op(shapes: Sequence[str], result: str, operation: str, before: str = "") -> str:
    """A module of one instruction on parameters p0, p1, ... of the given shapes."""
    parameters = [f"p{i} = {shape} parameter({i})" for i, shape in enumerate(shapes)]
    return module("\n".join([*parameters, f"ROOT r = {result} {operation}"]), before)
