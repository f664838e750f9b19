"""If, Case, While and For whose course depends on the inputs: against NumPy, by the references and natively."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from graphc.frontend.ge import importer
from graphc.graph_ir.ir.graph import Graph, all_ops
from support.tolerance import assert_close

Array = np.ndarray[Any, Any]
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 4 - 1


def node(kind: str, inputs: str, attrs: str = "", name: str = "r", users: int = 1) -> str:
    tail = f", attrs = {{{attrs}}}" if attrs else ""
    return f"  %{name} : [#users={users}] = Node[type={kind}] (inputs = ({inputs}){tail})\n"


def const(name: str, value: str) -> str:
    return f"  %{name} : [#users=1] = Node[type=Const] (attrs = {{value: {value}}})\n"


def graph(name: str, inputs: str, lines: str, results: str) -> str:
    """A graph of Data nodes (`-` leaves an index out), lines, and what it returns."""
    data = "".join(
        f"  %{x} : [#users=1] = Node[type=Data] (attrs = {{index: {i}}})\n"
        for i, x in enumerate(inputs.split())
        if x != "-"
    )
    returned = ", ".join(f"%{x}" for x in results.split())
    return f'graph("{name}"):\n{data}{lines}\n  return ({returned})\n'


def loaded(inputs: Mapping[str, str], lines: str, results: str, *graphs: str) -> Graph:
    text = "\n".join([graph("main", " ".join(inputs), lines, results), *graphs])
    return load(text.encode(), inputs)


def check(made: Graph, arrays: Sequence[Array], wanted: Sequence[Array]) -> None:
    """References and native code on two threads give what is wanted."""
    native = graphc.compile(made, threads=2)(*arrays)
    several = native if isinstance(native, (list, tuple)) else [native]
    for results in (made.evaluate(arrays), several):
        for got, want in zip(results, wanted, strict=True):
            assert_close(np.asarray(got), np.asarray(want, np.asarray(got).dtype), 4)


def kinds(made: Graph) -> set[str]:
    return {op.op_name for op in made.ops if op.kind == "control"}


SCALE = graph("scale", "a b", const("c", "[0.5]") + node("Mul", "x1=%a, x2=%c", name="m"), "m b")
SWAP = graph("swap", "a b", "", "b a")
ADD = graph(
    "add", "a b", node("Add", "x1=%a, x2=%b", name="s") + const("two", "[2.000000]"), "s two"
)


@pytest.mark.parametrize("dtype", ["bool", "s32", "f32"])
def test_if(dtype: str) -> None:
    lines = node(
        "If", "cond=%p, input_0=%x, input_1=%y", "then_branch: %scale, else_branch: %swap", users=2
    )
    elements = "  %e0 : [#users=1] = get_element[node=%r](0)\n  %e1 : [#users=1] = get_element[node=%r](1)\n"
    inputs = {"p": f"{dtype}[]", "x": "f32[2,3]", "y": "f32[2,3]"}
    made = loaded(inputs, lines + elements, "e0 e1", SCALE, SWAP)
    assert kinds(made) == {"case"}
    for flag in (0, 1):
        wanted = [X * 0.5, X + 1] if flag else [X + 1, X]
        check(
            made, [np.array(flag, made.inputs[0].outputs[0].details.dtype.numpy), X, X + 1], wanted
        )


def test_case_and_a_result_whose_type_only_a_branch_knows() -> None:
    """The text of a constant is one f32 or a vector of one; the other branch says that it is f16[]."""
    known = graph("known", "a b", node("Sub", "x1=%b, x2=%a", name="m"), "m")
    guess = graph("guess", "a b", const("c", "[3.500000]"), "c")
    lines = node(
        "Case", "branch_index=%i, input_0=%x, input_1=%y", "branches0: %known, branches1: %guess"
    )
    made = loaded({"i": "s64[]", "x": "f16[]", "y": "f16[]"}, lines, "r", known, guess)
    x, y = np.float16(2), np.float16(5)
    for index, want in ((0, 3), (1, 3.5), (2, 3.5), (-1, 3.5)):
        check(made, [np.array(index), np.array(x), np.array(y)], [np.array(want)])


POSITIVE = graph(
    "positive", "n a", const("z", "[0]") + node("Greater", "x1=%n, x2=%z", name="g"), "g"
)
LESS = graph(
    "less", "n a",
    const("o", "[1]") + node("Sub", "x1=%n, x2=%o", name="m") + const("h", "[0.500000]")
    + node("Mul", "x1=%a, x2=%h", name="q"),
    "m q",
)  # fmt: skip
ELEMENTS = (
    "  %e0 : [#users=1] = get_element[node=%r](0)\n  %e1 : [#users=1] = get_element[node=%r](1)\n"
)


@pytest.mark.parametrize("dtype", ["s32", "s64"])
def test_while_of_a_count_from_the_data(dtype: str) -> None:
    lines = node("While", "input_0=%n, input_1=%x", "cond: %positive, body: %less", users=2)
    made = loaded({"n": f"{dtype}[]", "x": "f32[2,3]"}, lines + ELEMENTS, "e0 e1", POSITIVE, LESS)
    assert kinds(made) == {"while"}
    for n in (-1, 0, 1, 2, 7):
        count = np.array(n, made.inputs[0].outputs[0].details.dtype.numpy)
        check(made, [count, X], [np.array(min(n, 0)), X * 0.5 ** max(n, 0)])


@pytest.mark.parametrize("trips, found", [(4, set()), (5000, {"while"})])
def test_while_of_a_known_count(trips: int, found: set[str]) -> None:
    lines = const("n", f"[{trips}]") + node(
        "While", "input_0=%n, input_1=%x", "cond: %positive, body: %less", users=2
    )
    made = loaded({"x": "f32[2,3]"}, lines + ELEMENTS, "e1", POSITIVE, LESS)
    assert kinds(made) == found
    check(made, [X], [X.astype(np.float64) * 0.5**trips])


def test_while_that_watches_its_values() -> None:
    far = graph(
        "far", "a",
        const("ax", "[0 1]") + node("Abs", "x=%a", name="b") + node("ReduceMax", "x=%b, axes=%ax", name="m")
        + const("one", "[1.000000]") + node("Greater", "x1=%m, x2=%one", name="g"),
        "g",
    )  # fmt: skip
    halve = graph(
        "halve", "a", const("h", "[0.500000]") + node("Mul", "x1=%a, x2=%h", name="q"), "q"
    )
    made = loaded(
        {"x": "f32[2,3]"}, node("While", "input_0=%x", "cond: %far, body: %halve"), "r", far, halve
    )
    for scale in (0.1, 3, 1000):
        want = X * np.float32(scale)
        while np.abs(want).max() > 1:
            want = want / 2
        check(made, [X * np.float32(scale)], [want])


SUM = graph("sum", "i a", node("Add", "x1=%a, x2=%i", name="b"), "b")


@pytest.mark.parametrize("dtype", ["s32", "s64"])
def test_for_of_bounds_from_the_data(dtype: str) -> None:
    lines = node("For", "start=%s, limit=%l, delta=%d, input_1=%x", "body: %sum")
    inputs = {"s": f"{dtype}[]", "l": f"{dtype}[]", "d": f"{dtype}[]", "x": f"{dtype}[]"}
    made = loaded(inputs, lines, "r", SUM)
    assert kinds(made) == {"while"}
    for start, limit, delta in (
        (0, 5, 1),
        (0, 5, 2),
        (3, -1, -2),
        (2, 2, 1),
        (0, 4, -1),
        (1, 2, 0),
    ):
        trips = -(-abs(limit - start) // abs(delta)) if delta else 0
        kind = made.inputs[0].outputs[0].details.dtype.numpy
        arrays = [np.array(v, kind) for v in (start, limit, delta, 100)]
        check(made, arrays, [np.array(100 + sum(start + k * delta for k in range(trips)))])


def test_for_of_many_rounds_is_no_longer_unrolled() -> None:
    lines = const("s", "[0]") + const("l", "[3000]") + const("d", "[1]")
    lines += node("For", "start=%s, limit=%l, delta=%d, input_1=%x", "body: %sum")
    made = loaded({"x": "s32[]"}, lines, "r", SUM)
    assert kinds(made) == {"while"}
    check(made, [np.array(7, np.int32)], [np.array(7 + sum(range(3000)))])


def test_a_counter_used_as_an_axis_is_unrolled_however_long() -> None:
    body = graph(
        "body", "i a",
        const("z", "[0]") + node("Mul", "x1=%i, x2=%z", name="zero") + const("two", "[2]")
        + node("Pack", "x_0=%zero, x_1=%zero", "axis: 0, N: 2", name="at") + const("sz", "[2 3]")
        + node("Slice", "x=%a, offsets=%at, size=%sz", name="p") + node("Neg", "x=%p", name="q"),
        "q",
    )  # fmt: skip
    lines = const("s", "[0]") + const("l", "[101]") + const("d", "[1]")
    lines += node("For", "start=%s, limit=%l, delta=%d, input_1=%x", "body: %body")
    made = loaded({"x": "f32[2,3]"}, lines, "r", body)
    (got,) = made.evaluate([X])
    np.testing.assert_array_equal(got, -X)


def test_the_extra_result_of_ge_s_example_is_that_of_the_last_round() -> None:
    body = graph(
        "body", "i a",
        const("o", "[1]") + node("Add", "x1=%i, x2=%o", name="j") + node("Add", "x1=%a, x2=%a", name="b"),
        "j b",
    )  # fmt: skip
    lines = const("s", "[0]") + const("d", "[1]")
    lines += node("For", "start=%s, limit=%n, delta=%d, input_1=%x", "body: %body", users=2)
    made = loaded({"n": "s32[]", "x": "f32[2,3]"}, lines + ELEMENTS, "e0 e1", body)
    for n in (0, 1, 3):
        check(made, [np.array(n, np.int32), X], [np.array(n), X * 2.0**n])


def test_control_flow_inside_control_flow() -> None:
    body = graph(
        "outer", "i a",
        const("z", "[0]") + const("d", "[1]")
        + node("For", "start=%z, limit=%i, delta=%d, input_1=%a", "body: %sum", name="f")
        + node("If", "cond=%i, input_0=%f", "then_branch: %minus, else_branch: %same", name="c"),
        "c",
    )  # fmt: skip
    minus = graph("minus", "a", node("Neg", "x=%a", name="b"), "b")
    same = graph("same", "a", "", "a")
    lines = const("s", "[0]") + const("d", "[1]")
    lines += node("For", "start=%s, limit=%n, delta=%d, input_1=%x", "body: %outer")
    made = loaded({"n": "s32[]", "x": "s32[]"}, lines, "r", body, SUM, minus, same)
    for n in range(6):
        value = 10
        for i in range(n):
            value += sum(range(i))
            value = -value if i else value
        check(made, [np.array(n, np.int32), np.array(10, np.int32)], [np.array(value)])


def nested(depth: int) -> Graph:
    """Branches of both graphs of a level name both graphs of the next one; the last are Relu and Abs."""
    take = "then_branch: %t{0}, else_branch: %e{0}"
    parts = [
        graph(
            f"{side}{level}", "a c",
            node(kind, "x=%a", name="b")
            + node("If", "cond=%c, input_0=%b, input_1=%c", take.format(level + 1), name="r"),
            "r",
        )
        for level in range(depth)
        for side, kind in (("t", "Neg"), ("e", "Square"))
    ]  # fmt: skip
    ends = [graph(f"{side}{depth}", "a", node(kind, "x=%a", name="b"), "b") for side, kind in ENDS]
    lines = node("If", "cond=%p, input_0=%x, input_1=%p", take.format(0))
    return loaded({"x": "f32[2,3]", "p": "bool[]"}, lines, "r", *parts, *ends)


ENDS = (("t", "Relu"), ("e", "Abs"))


def test_branches_that_double_are_imported_once_per_graph() -> None:
    made = nested(1)
    for holds, want in ((True, np.maximum(-X, 0)), (False, X**2)):
        check(made, [X, np.array(holds)], [want])
    names = [op.name for op in all_ops(made) if op.op_name == "case"]
    assert names[:3] == ["r", "r/else/r", "r/then/r"]
    with mock.patch.object(importer, "_import_nodes", wraps=importer._import_nodes) as imported:
        nested(12)  # 2^13 paths: the main graph and 26 others
        assert imported.call_count == 27
        with pytest.raises(UnsupportedError, match="more than 200000 nodes after inlining"):
            nested(30)
    assert imported.call_count <= 27 + 63


def test_a_graph_is_imported_again_for_other_types() -> None:
    body = graph("twice", "a", node("Add", "x1=%a, x2=%a", name="b"), "b")
    lines = "".join(
        node(
            "If", f"cond=%p, input_0=%{x}", "then_branch: %twice, else_branch: %twice", name=f"r{x}"
        )
        for x in ("x", "y", "z")
    )
    inputs = {"p": "bool[]", "x": "f32[2,3]", "y": "s32[3]", "z": "f32[2,3]"}
    y, z = np.arange(3, dtype=np.int32), X + 1
    check(
        loaded(inputs, lines, "rx ry rz", body),
        [np.array(True), X, y, z], [X + X, y + y, z + z],
    )  # fmt: skip


def test_errors() -> None:
    wide = graph("wide", "a b", node("Pack", "x_0=%a, x_1=%b", "axis: 0, N: 2", name="p"), "p")
    lines = node("If", "cond=%p, input_0=%x, input_1=%x", "then_branch: %wide, else_branch: %swap1")
    one = graph("swap1", "a b", "", "b")
    inputs = {"p": "bool[]", "x": "f32[3]"}
    with pytest.raises(
        UnsupportedError,
        match=r"If 'r': a choice between results of different types \(f32\[3\] and f32\[2,3\]\)",
    ):
        loaded(inputs, lines, "r", wide, one)
    grow = graph("grow", "n a", node("Pack", "x_0=%a, x_1=%a", "axis: 0, N: 2", name="p"), "n p")
    loop = node("While", "input_0=%n, input_1=%x", "cond: %positive, body: %grow", users=2)
    with pytest.raises(
        UnsupportedError,
        match=r"whose type changes from round to round \(from f32\[3\] to f32\[2,3\]\)",
    ):
        loaded({"n": "s32[]", "x": "f32[3]"}, loop + ELEMENTS, "e1", POSITIVE, grow)
    short = graph("short", "n a", "", "n")
    with pytest.raises(
        UserError, match="the body must return one value for each input of the loop, got 1 results"
    ):
        loaded(
            {"n": "s32[]", "x": "f32[3]"},
            loop.replace("grow", "short") + ELEMENTS,
            "e1",
            POSITIVE,
            short,
        )
