"""scan: loops over slices, and running sums, against a loop in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.frontend.hlo import import_hlo, parse_hlo
from support.hlo_text import ADD, module

BODY = """body {
  a = f32[2] parameter(0)
  b = s32[2] parameter(1)
  h = f32[2] parameter(2)
  f = f32[2] convert(b)
  m = f32[2] multiply(h, a)
  n = f32[2] add(m, f)
  d = f32[2] subtract(n, h)
  ROOT t = (f32[2], s32[2], f32[2]) tuple(d, b, n)
}

"""
SUM = """body {
  a = TYPE parameter(0)
  h = TYPE parameter(1)
  s = TYPE OPCODE(h, a)
  ROOT t = (TYPE, TYPE) tuple(s, s)
}

"""
RNG = np.random.default_rng(5)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_a_loop_with_a_state_and_two_results(is_reverse: bool) -> None:
    text = module(
        f"""a = f32[2,300] parameter(0)
        b = s32[2,300] parameter(1)
        h = f32[2] parameter(2)
        ROOT r = (f32[2,300], s32[2,300], f32[2]) scan(a, b, h), dimensions={{1}}, num_carries=1,
          is_reverse={str(is_reverse).lower()}, to_apply=body""",
        BODY,
    )
    a = RNG.standard_normal((2, 300)).astype(np.float32) / 2
    b = RNG.integers(-9, 9, (2, 300)).astype(np.int32)
    h = np.ones(2, np.float32)
    wanted = np.zeros((2, 300), np.float32)
    state: np.ndarray = h
    for i in range(300)[:: -1 if is_reverse else 1]:
        wanted[:, i] = state * a[:, i] + b[:, i] - state
        state = state * a[:, i] + b[:, i]
    graph = import_hlo(parse_hlo(text))
    rows, same, last = graphc.compile(graph)(a, b, h)
    np.testing.assert_allclose(rows, wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(same, b)
    np.testing.assert_allclose(last, state, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("opcode", "attributes", "ops"),
    [
        ("add", "is_associative=true", {"cum_sum"}),
        ("add", "is_associative=true, is_reverse=true", {"cum_sum"}),
        ("multiply", "is_associative=true", {"cum_prod"}),
        ("add", "is_associative=false", {"while"}),
        ("maximum", "is_associative=true", {"while"}),
    ],
)
def test_running_sums(opcode: str, attributes: str, ops: set[str]) -> None:
    text = module(
        f"""a = s32[3,4] parameter(0)
        h = s32[4] parameter(1)
        ROOT r = (s32[3,4], s32[4]) scan(a, h), dimensions={{0}}, num_carries=1, {attributes}, to_apply=body""",
        SUM.replace("TYPE", "s32[4]").replace("OPCODE", opcode),
    )
    graph = import_hlo(parse_hlo(text))
    assert ops <= {op.op_name for op in graph.ops}
    a = RNG.integers(-9, 9, (3, 4)).astype(np.int32)
    h = np.arange(4, dtype=np.int32)
    function = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}[opcode]
    step = -1 if "is_reverse" in attributes else 1
    wanted = function.accumulate(np.concatenate([h[None], a[::step]]))[1:]
    rows, last = graph.evaluate([a, h])
    np.testing.assert_array_equal(rows, wanted[::step])
    np.testing.assert_array_equal(last, wanted[-1])


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            "scan(a, h), dimensions={0}, num_carries=2, to_apply=body",
            "num_carries must be less than its operands",
        ),
        (
            "scan(a, h), dimensions={0}, num_carries=0, to_apply=body",
            r"one size on axis 0, got f32\[3\] and f32\[\]",
        ),
        (
            "scan(h, a), dimensions={0}, num_carries=1, to_apply=body",
            "dimensions must be distinct axes below 0",
        ),
        (
            "scan(a, a), dimensions={0}, num_carries=1, to_apply=body",
            r"to_apply takes \(f32\[\], f32\[\]\), but is",
        ),
        (
            "scan(a, h), dimensions={0}, num_carries=1, to_apply=add_f32",
            "must give a tuple that ends in 1 states",
        ),
    ],
)
def test_wrong_scans(operation: str, message: str) -> None:
    body = ADD + SUM.replace("TYPE", "f32[]").replace("OPCODE", "add")
    text = module(
        f"a = f32[3] parameter(0)\nh = f32[] parameter(1)\nROOT r = (f32[3], f32[]) {operation}",
        body,
    )
    with pytest.raises(graphc.UserError, match=message):
        import_hlo(parse_hlo(text))
