"""If, Loop and Scan, by the references and as native code, against onnx's own evaluator.

It does not support loops without a condition and scans along other axes or backwards; ONNX Runtime runs those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from graphc.graph_ir.ir.graph import Graph
from support.onnx_models import expected, model, node
from support.tolerance import assert_close

Array = np.ndarray[Any, Any]
I64, BOOL, F32 = TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT
X = np.arange(6, dtype=np.float32).reshape(2, 3) / 4


def inner(
    name: str,
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, int] | None = None,
    outputs: Mapping[str, int] | None = None,
    weights: Mapping[str, Array] | None = None,
) -> GraphProto:
    """A graph of a node; inputs and outputs by element type, of no shape (numbers and truth values are scalars)."""

    def infos(types: Mapping[str, int] | None) -> list[onnx.ValueInfoProto]:
        given = (types or {}).items()
        return [helper.make_tensor_value_info(n, t, None if t == F32 else []) for n, t in given]

    tensors = [numpy_helper.from_array(np.asarray(w), n) for n, w in (weights or {}).items()]
    return helper.make_graph(list(nodes), name, infos(inputs), infos(outputs), tensors)


def by_runtime(proto: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """Return the results of ONNX Runtime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return [np.asarray(result) for result in session.run(None, dict(feeds))]


Evaluator = Callable[[ModelProto, Mapping[str, Array]], list[Array]]


def check(
    proto: ModelProto,
    many: Sequence[Mapping[str, Array]],
    kinds: set[str],
    evaluate: Evaluator = expected,
) -> Graph:
    """The model computes what onnx does for each set of inputs; `kinds`: the control ops it becomes."""
    graph = load(proto)
    assert {op.op_name for op in graph.ops if op.kind == "control"} == kinds
    native = graphc.compile(proto, threads=2)
    for feeds in many:
        arrays = [feeds[op.name] for op in graph.inputs]
        results = native(*arrays)
        several = results if isinstance(results, (list, tuple)) else [results]
        for got, again, want in zip(
            several, graph.evaluate(arrays), evaluate(proto, feeds), strict=True
        ):
            assert_close(np.asarray(got), want.reshape(np.asarray(got).shape), 4)
            assert_close(again, want, 4)
    native.close()
    return graph


def choice(**weights: Array) -> ModelProto:
    """y = x + k or y = -x, with an outer value that only a branch reads."""
    then = inner("then", [node("Add", "x k", "a")], outputs={"a": F32})
    other = inner(
        "other",
        [node("Mul", "s two", "b")],
        outputs={"b": F32},
        weights={"two": np.array(2, np.float32)},
    )
    nodes = [
        node("Relu", "x", "s"),
        node("If", "c", "z", then_branch=then, else_branch=other, name="choose"),
        node("Neg", "z", "y"),
    ]
    inputs = {"c": [], "x": [2, 3]} if "c" not in weights else {"x": [2, 3]}
    return model(nodes, inputs, {"k": np.array(3, np.float32), **weights}, dtypes={"c": BOOL})


def test_if() -> None:
    feeds = [{"c": np.array(flag), "x": X - 1} for flag in (True, False)]
    check(choice(), feeds, {"case"})


@pytest.mark.parametrize("flag", [True, False])
def test_if_of_a_known_condition_is_inlined(flag: bool) -> None:
    check(choice(c=np.array(flag)), [{"x": X - 1}], set())


def test_if_inside_if_reads_from_both_graphs_around() -> None:
    deep = {
        flag: inner(flag, [node(op, "s x", "r")], outputs={"r": F32})
        for flag, op in (("yes", "Add"), ("no", "Sub"))
    }
    middle = inner(
        "middle",
        [
            node("Exp", "x", "s"),
            node("If", "d", "q", then_branch=deep["yes"], else_branch=deep["no"]),
        ],
        outputs={"q": F32},
    )
    outside = inner("outside", [node("Neg", "x", "n")], outputs={"n": F32})
    proto = model(
        [node("If", "c", "y", then_branch=middle, else_branch=outside)],
        {"c": [], "d": [1], "x": [2, 3]}, dtypes={"c": BOOL, "d": BOOL},
    )  # fmt: skip
    feeds = [
        {"c": np.array(c), "d": np.array([d]), "x": X} for c in (True, False) for d in (True, False)
    ]
    check(proto, feeds, {"case"})


STATE = {"i": I64, "go": BOOL, "a": F32, "b": F32}


def fibonacci(going: Sequence[NodeProto] = ()) -> GraphProto:
    """(a, b) -> (b, a + b + w), with w from outside; `going` computes `more`."""
    nodes = [node("Add", "a b", "s"), node("Add", "s w", "n"), node("Identity", "b", "m")]
    nodes += going or [node("Identity", "go", "more")]
    return inner("body", nodes, STATE, {"more": BOOL, "m": F32, "n": F32})


LOOP_INPUTS: dict[str, Sequence[int]] = {"most": [], "x": [2, 3], "w": [3]}


def loop(body: GraphProto, most: str, go: str, outputs: str = "y z", **known: Array) -> ModelProto:
    inputs = {
        n: d
        for n, d in {**LOOP_INPUTS, "going": []}.items()
        if n in (most, go, "x", "w") and n not in known
    }
    return model(
        [node("Loop", f"{most} {go} x x", outputs, body=body, name="rounds")],
        inputs, known, outputs=outputs.split(), dtypes={"most": I64, "going": BOOL},
    )  # fmt: skip


W = np.array([1, -1, 0.5], np.float32)


def test_loop_of_a_number_of_rounds_from_the_data() -> None:
    proto = loop(fibonacci(), "most", "-")
    check(
        proto, [{"most": np.array(n), "x": X, "w": W} for n in (0, 1, 2, 5)], {"while"}, by_runtime
    )


def test_loop_while_a_condition_holds() -> None:
    going = [node("ReduceSum", "n", "t", keepdims=0), node("Less", "t fifty", "more")]
    proto = loop(fibonacci(going), "-", "going", fifty=np.array(50, np.float32))
    check(proto, [{"going": np.array(go), "x": X, "w": W} for go in (True, False)], {"while"})


def test_loop_until_either_ends_it() -> None:
    going = [node("ReduceSum", "n", "t", keepdims=0), node("Less", "t fifty", "more")]
    proto = loop(fibonacci(going), "most", "going", fifty=np.array(50, np.float32))
    feeds = [
        {"most": np.array(n), "going": np.array(go), "x": X, "w": W}
        for n, go in ((0, True), (1, True), (2, True), (100, True), (100, False))
    ]
    check(proto, feeds, {"while"})


COLLECTING = {"more": BOOL, "m": F32, "row": F32, "number": I64}


def collecting(extra: Sequence[NodeProto] = ()) -> GraphProto:
    nodes = [
        node("Add", "a w", "m"), node("ReduceSum", "m axis", "row", keepdims=0),
        node("Add", "i i", "number"), node("Identity", "go", "more"), *extra,
    ]  # fmt: skip
    return inner("body", nodes, {"i": I64, "go": BOOL, "a": F32}, COLLECTING)


def collect(most: int | None, body: GraphProto) -> ModelProto:
    known: dict[str, Array] = {"axis": np.array([1])}
    if most is not None:
        known["most"] = np.array(most)
    return model(
        [node("Loop", "most - x", "y rows numbers", body=body, name="rounds")],
        {n: d for n, d in LOOP_INPUTS.items() if n not in known}, known,
        outputs=("y", "rows", "numbers"), dtypes={"most": I64, "numbers": I64},
    )  # fmt: skip


@pytest.mark.parametrize("most, kinds", [(1, set()), (4, set()), (300, {"while"})])
def test_what_each_round_gives_is_collected(most: int, kinds: set[str]) -> None:
    check(collect(most, collecting()), [{"x": X, "w": W}], kinds, by_runtime)


def test_the_number_of_the_round_may_be_a_shape_in_a_short_loop() -> None:
    body = inner(
        "body",
        [
            node("Unsqueeze", "i axis", "at"), node("Add", "at one", "end"), node("Slice", "w at end axis", "part"),
            node("Add", "a part", "m"), node("Identity", "go", "more"),
        ],
        {"i": I64, "go": BOOL, "a": F32}, {"more": BOOL, "m": F32},
    )  # fmt: skip
    known = {"axis": np.array([0]), "one": np.array([1]), "most": np.array(3)}
    proto = model([node("Loop", "most - x", "y", body=body)], {"x": [2, 3], "w": [3]}, known)
    graph = check(proto, [{"x": X, "w": W}], set(), by_runtime)
    assert [op.op_name for op in graph.ops if op.op_name == "slice"] == ["slice"] * 3


def test_a_loop_inside_a_loop_inside_a_branch() -> None:
    nested = inner(
        "nested",
        [node("Mul", "p half", "q"), node("Identity", "g", "h")],
        {"j": I64, "g": BOOL, "p": F32}, {"h": BOOL, "q": F32}, {"half": np.array(0.5, np.float32)},
    )  # fmt: skip
    body = inner(
        "body",
        [node("Loop", "i - a", "b", body=nested), node("Add", "b x", "v"), node("Identity", "go", "more")],
        {"i": I64, "go": BOOL, "a": F32}, {"more": BOOL, "v": F32},
    )  # fmt: skip
    then = inner("then", [node("Loop", "most - x", "r", body=body)], outputs={"r": F32})
    other = inner("other", [node("Identity", "x", "r2")], outputs={"r2": F32})
    proto = model(
        [node("If", "c", "y", then_branch=then, else_branch=other)],
        {"c": [], "most": [], "x": [2, 3]}, dtypes={"c": BOOL, "most": I64},
    )  # fmt: skip
    feeds = [
        {"c": np.array(c), "most": np.array(n), "x": X}
        for c, n in ((False, 3), (True, 0), (True, 4))
    ]
    check(proto, feeds, {"case"}, by_runtime)


def scan_model(length: int, **attrs: Any) -> ModelProto:
    body = inner(
        "body",
        [node("Add", "s r", "t"), node("Mul", "r q", "p"), node("Add", "p w", "o"), node("Neg", "t", "u")],
        {"s": F32, "r": F32, "q": F32}, {"t": F32, "o": F32, "u": F32},
    )  # fmt: skip
    rows = attrs.pop("shape", [length, 3])
    return model(
        [node("Scan", "s0 x1 x2", "y o u", body=body, num_scan_inputs=2, name="scan", **attrs)],
        {"s0": [3], "x1": [length, 3], "x2": rows, "w": [3]}, outputs=("y", "o", "u"),
    )  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("length", [1, 5, 300])
@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"scan_input_directions": [0, 1], "scan_output_directions": [1, 0]},
        {"scan_input_axes": [0, 1], "scan_output_axes": [1, 0]},
        {"scan_input_axes": [-2, -1], "scan_output_axes": [-1, 0], "scan_input_directions": [1, 0]},
    ],
)
def test_scan(length: int, attrs: dict[str, Any]) -> None:
    transposed = "scan_input_axes" in attrs
    proto = scan_model(length, **attrs, **({"shape": [3, length]} if transposed else {}))
    rng = np.random.default_rng(length)
    x1, x2 = (rng.integers(-3, 4, (length, 3)).astype(np.float32) for _ in range(2))
    feeds = {"s0": W, "x1": x1, "x2": np.ascontiguousarray(x2.T) if transposed else x2, "w": W}
    check(proto, [feeds], {"while"}, by_runtime)


DOUBLES = inner(
    "body",
    [node("Concat", "a a", "m", axis=0), node("Identity", "go", "more")],
    {"i": I64, "go": BOOL, "a": F32},
    {"more": BOOL, "m": F32},
)


def test_state_that_grows_more_each_round_is_refused() -> None:
    doubles = model(
        [node("Loop", "most go x", "y", body=DOUBLES, name="l")],
        {"go": [], "x": [2]},
        {"most": np.array(300)},
        dtypes={"go": BOOL},
    )
    with pytest.raises(
        UnsupportedError, match="Loop 'l': a state whose type changes from round to round"
    ):
        load(doubles)


def test_errors() -> None:
    proto = model(
        [node("Loop", "most - x", "y", body=DOUBLES, name="l")],
        {"most": [], "x": [2]},
        dtypes={"most": I64},
    )
    with pytest.raises(
        UnsupportedError,
        match=r"Loop 'l': a state that grows \(from f32\[2\] to f32\[4\]\) in rounds whose number nothing limits",
    ):
        load(proto)
    wide = inner("then", [node("Concat", "x x", "r", axis=0)], outputs={"r": F32})
    narrow = inner("else", [node("ReduceMax", "x", "r2", keepdims=0)], outputs={"r2": F32})
    proto = model(
        [node("If", "c", "y", then_branch=wide, else_branch=narrow, name="f")],
        {"c": [], "x": [2]},
        dtypes={"c": BOOL},
    )
    with pytest.raises(
        UnsupportedError,
        match=r"If 'f': a choice between results of different types \(f32\[4\] and f32\[\]\)",
    ):
        load(proto)
    with pytest.raises(
        UserError,
        match="Loop 'rounds': the body must take 3 inputs and return 2 values or more, got 4 inputs",
    ):
        load(
            model(
                [node("Loop", "most - x", "y", body=fibonacci(), name="rounds")],
                {"most": [], "x": [2], "w": [2]},
                dtypes={"most": I64},
            )
        )
    missing = inner("then", [node("Add", "x nowhere", "r")], outputs={"r": F32})
    with pytest.raises(UserError, match=r"there is none for 'nowhere' \(read by If"):
        load(
            model(
                [node("If", "c", "y", then_branch=missing, else_branch=narrow)],
                {"c": [], "x": [2]},
                dtypes={"c": BOOL},
            )
        )
    odd = inner("then", [node("ImageDecoder", "x", "r")], outputs={"r": F32})
    with pytest.raises(UnsupportedError, match=r"these ops are not supported: ImageDecoder \(1x\)"):
        load(
            model(
                [node("If", "c", "y", then_branch=odd, else_branch=narrow)],
                {"c": [], "x": [2]},
                dtypes={"c": BOOL},
            )
        )
