"""Operations between devices and asynchronous ones, on one device."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from support.hlo_text import ADD, module, run

X = np.array([1, -2, 3, 4], np.float32)

STARTED = {
    "all-gather": ("(f32[4], f32[4]) all-gather-start(x), replica_groups={{0}}, dimensions={0}", X),
    "all-reduce": ("f32[4] all-reduce-start(x), to_apply=add_f32", X),
    "reduce-scatter": (
        "((f32[4]), f32[4], u32[]) reduce-scatter-start(x), dimensions={0}, to_apply=add_f32", X,
    ),
    "collective-permute": (
        "(f32[4], f32[4], u32[], u32[]) collective-permute-start(x), source_target_pairs={{0,1}}", 0 * X,
    ),
    "copy": ("(f32[4]{0:S(1)}, f32[4], u32[]) copy-start(x)", X),
    "slice": ("((f32[4]), f32[2], s32[]) slice-start(x), slice={[1:3]}", X[1:3]),
    "async": ('((f32[4]), f32[4], s32[]) async-start(x), async_execution_thread="t", calls=twice', 2 * X),
    "call": ("((f32[4]), f32[4], s32[]) call-start(x), to_apply=twice", 2 * X),
}  # fmt: skip
TWICE = "twice {\n  p = f32[4] parameter(0)\n  ROOT r = f32[4] add(p, p)\n}\n\n"


@pytest.mark.parametrize("name", STARTED)
def test_done_gives_what_start_computed(name: str) -> None:
    start, wanted = STARTED[name]
    lines = ["x = f32[4] parameter(0)", f"s = {start}"]
    source = "s"
    if name == "async":
        lines.append("u = ((f32[4]), f32[4], s32[]) async-update(s)")
        source = "u"
    result = f"f32[{len(np.atleast_1d(wanted))}]"
    lines.append(f"ROOT d = {result} {name}-done({source})")
    (y,) = run(module("\n".join(lines), ADD + TWICE), X)
    np.testing.assert_array_equal(y, wanted)


def test_several_arrays_are_gathered_at_once() -> None:
    text = module(
        """x = f32[4] parameter(0)
        s = ((f32[4], f32[4]), (f32[4], f32[4])) all-gather-start(x, x), dimensions={0}
        ROOT d = (f32[4], f32[4]) all-gather-done(s)"""
    )
    for y in run(text, X):
        np.testing.assert_array_equal(y, X)


RECEIVED = """x = f32[4] parameter(0)
t = token[] after-all()
r = (f32[4], u32[], token[]) recv(t), channel_id=7
rd = (f32[4], token[]) recv-done(r), channel_id=7
y = f32[4] add(x, x)
s = (f32[4], u32[], token[]) send(y, t), channel_id={channel}
sd = token[] send-done(s), channel_id={channel}
ROOT z = f32[4] get-tuple-element(rd), index=0"""


def test_a_value_received_is_the_one_sent_whichever_is_written_first() -> None:
    (y,) = run(module(RECEIVED.replace("{channel}", "7")), X)
    np.testing.assert_array_equal(y, 2 * X)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RECEIVED.replace("{channel}", "8"), "a recv that waits for no send of channel 7 in its computation is not"),
        (
            RECEIVED.replace("{channel}", "7").replace("send(y, t)", "send(y, t), is_host_transfer=true"),
            "a transfer to or from the host is not supported",
        ),
        (
            "x = f32[4] parameter(0)\ns = (f32[4], f32[8]) all-gather-start(x), dimensions={0}\n"
            "ROOT d = f32[8] all-gather-done(s)",
            "more than one replica is not supported",
        ),
    ],
)  # fmt: skip
def test_what_one_device_cannot_do(text: str, message: str) -> None:
    with pytest.raises(graphc.UnsupportedError, match=message):
        run(module(text))


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("f32[4] copy-start(x)", r"its shape must be \(operands, result, ..\), got f32\[4\]"),
        (
            "(f32[2], f32[4], u32[]) copy-start(x)",
            r"its shape must begin with its operands, got f32\[2\]",
        ),
        ("f32[4] copy-done(x)", "its operand must be what the operation's start gives"),
        ("(f32[4], token[]) recv-done(x)", "its operand must be a recv"),
    ],
)
def test_wrong_shapes(operation: str, message: str) -> None:
    with pytest.raises(graphc.UserError, match=message):
        run(module(f"x = f32[4] parameter(0)\nROOT y = {operation}"), X)
