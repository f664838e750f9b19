"""Dynamic dimensions that a rule of some op fixes, or makes one: in every op, by what its rule compares."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load

F = np.float32


def model_of(node, inputs, constants=()):
    """An ONNX model of one node, with the shapes of its inputs."""
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape) for x, shape in inputs.items()],
        [helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in dict(constants).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def shapes_of(proto):
    return {op.name: str(op.outputs[0].details) for op in load(proto).inputs}


ONES = np.ones((4, 6), F)
make = helper.make_node


@pytest.mark.parametrize(
    ("node", "shape", "constant", "fixed"),
    [
        (make("MatMul", ["x", "c"], ["y"]), ["N", "D"], ONES, "f32[N,4]"),
        (make("Gemm", ["x", "c"], ["y"], transB=1), ["N", "D"], ONES, "f32[N,6]"),
        (make("Add", ["x", "c"], ["y"]), ["N", "D"], ONES, "f32[4,6]"),
        (make("LayerNormalization", ["x", "c"], ["y"]), ["N", "D"], ONES[0], "f32[N,6]"),
        (make("PRelu", ["x", "c"], ["y"]), ["N", "D"], ONES[0], "f32[N,6]"),
        (make("Conv", ["x", "c"], ["y"]), ["N", "C", "L"], np.ones((2, 3, 1), F), "f32[N,3,L]"),
        (make("Concat", ["x", "c"], ["y"], axis=0), ["N", "D"], ONES, "f32[N,6]"),
        (make("Einsum", ["x", "c"], ["y"], equation="ij,jk->ik"), ["N", "D"], ONES, "f32[N,4]"),
    ],
)  # fmt: skip
def test_a_constant_fixes_a_dimension(node, shape, constant, fixed):
    proto = model_of(node, {"x": shape}, {"c": constant})
    assert shapes_of(proto) == {"x": fixed}


TABLE = (
    helper.make_node("Shape", ["x"], ["s"], start=1),
    helper.make_node("Slice", ["c", "zero", "s", "one"], ["p"]),
    helper.make_node("Add", ["x", "p"], ["y"]),
)


@pytest.mark.parametrize("spec", ["f32[N=1..8,D=1..64]", "f32[N,1..64]"])
@pytest.mark.parametrize(
    ("nodes", "sizes"),
    [((make("MatMul", ["x", "c"], ["y"]),), "4"), ((make("PRelu", ["x", "d"], ["y"]),), "6"), (TABLE, "1..6")],
)  # fmt: skip
def test_a_range_that_an_op_does_not_take_is_an_error(nodes, sizes, spec):
    """Without a range, or with one that the op takes, the size gets its limit."""
    constants = {
        "c": ONES if len(nodes) == 1 else ONES[:1],
        "d": ONES[0],
        "zero": np.array([0]),
        "one": np.array([1]),
    }
    proto = model_of(nodes[-1], {"x": ["N", "D"]}, constants)
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    with pytest.raises(UserError) as error:
        load(proto, {"x": spec})
    given = ("D" if "D" in spec else "x_1") + "=1..64"
    assert str(error.value) == (
        f"input 'x': an op of the model limits axis 1 to {sizes}, got {given}; give that, or no range"
    )
    for kept in ("f32[N=1..8,D]", f"f32[N,{'D=1..6' if '.' in sizes else sizes}]"):
        assert load(proto, {"x": kept}).inputs


def test_ranges_of_exported_programs():
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 6)
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(torch.nn.ReLU(), (x,), dynamic_shapes=sizes)
    with pytest.raises(UserError, match="limits axis 1 to 6, got D=1..64"):
        load(program, {"input": "f32[N,D=1..64]"})
    assert str(load(program, {"input": "f32[N=1..8,6]"}).inputs[0].outputs[0].details) == "f32[N,6]"


def test_a_call_with_another_size_is_refused():
    proto = model_of(make("MatMul", ["x", "c"], ["y"]), {"x": ["N", "D"]}, {"c": ONES})
    with graphc.compile(proto) as compiled:
        x = np.arange(12, dtype=F).reshape(3, 4)
        np.testing.assert_array_equal(compiled(x), x @ ONES)
        with pytest.raises(UserError, match=r"f32\[N,4\]"):
            compiled(np.ones((3, 5), F))


@pytest.mark.parametrize(
    ("node", "inputs", "constants", "second"),
    [
        (
            make("Einsum", ["x", "z"], ["y"], equation="bij,bjk->bik"),
            {"x": ["A", "I", "J"], "z": ["B", "L", "K"]},
            {},
            "f32[A,J,K]",
        ),
        (
            make("GridSample", ["x", "z"], ["y"]),
            {"x": ["A", 3, "H", "W"], "z": ["B", "P", "Q", 2]},
            {},
            "f32[B,P,Q,2]",
        ),
        (
            make("RNN", ["x", "w", "r", "", "", "z"], ["y"], hidden_size=5),
            {"x": ["T", "A", 3], "z": [1, "B", 5]},
            {"w": np.ones((1, 5, 3), F), "r": np.ones((1, 5, 5), F)},
            "f32[1,B,5]",
        ),
    ],
)
def test_two_names_become_one(node, inputs, constants, second):
    found = shapes_of(model_of(node, inputs, constants))
    assert found["z"] == second
    assert ("A" in found["x"]) == ("A" in second)


@pytest.mark.parametrize("heads", [(2, 2), (4, 2)])
def test_widths_of_heads_stay_dynamic(heads, rng):
    node = make("Attention", ["x", "k", "v"], ["y"], q_num_heads=heads[0], kv_num_heads=heads[1])
    dims = {"x": ["A", "S", "D"], "k": ["B", "T", "E"], "v": ["C", "U", "F"]}
    proto = model_of(node, dims)
    proto.opset_import[0].version = 23
    compiled = graphc.compile(proto, threads=1)
    for width in (1, 5):
        x, k, v = (rng.standard_normal((2, 3, h * width), F) for h in (heads[0], *heads[1:] * 2))
        q, keys, values = (
            a.reshape(2, 3, -1, width).swapaxes(1, 2).astype(np.float64) for a in (x, k, v)
        )
        keys, values = (a.repeat(heads[0] // heads[1], 1) for a in (keys, values))
        weights = np.exp(q @ keys.swapaxes(2, 3) / np.sqrt(width))
        want = (weights / weights.sum(-1, keepdims=True) @ values).swapaxes(1, 2).reshape(x.shape)
        np.testing.assert_allclose(compiled(x, k, v), want, rtol=1e-4, atol=1e-5)


def test_sizes_that_cannot_be_equal_are_refused_as_before():
    proto = model_of(make("MatMul", ["x", "c"], ["y"]), {"x": ["N", 5]}, {"c": np.ones((4, 6), F)})
    with pytest.raises(UserError, match="inner sizes must match, got K=5 and K=4"):
        load(proto)
    spec = {"x": "f32[N,D=7..9]"}
    proto = model_of(make("MatMul", ["x", "c"], ["y"]), {"x": ["N", "D"]}, {"c": ONES})
    with pytest.raises(UserError, match="inner sizes must match, got K=D and K=4"):
        load(proto, inputs=spec)


def test_images_of_any_size_are_sampled():
    node = make("GridSample", ["x", "z"], ["y"], padding_mode="reflection", align_corners=1)
    proto = model_of(node, {"x": ["A", 2, "H", "W"], "z": ["B", "P", "Q", 2]})
    grid = np.random.default_rng(0).uniform(-2, 2, (1, 3, 4, 2)).astype(F)
    with graphc.compile(proto) as compiled:
        for height, width in ((1, 7), (5, 2)):
            x = np.arange(2 * height * width, dtype=F).reshape(1, 2, height, width)
            with graphc.compile(model_of(node, {"x": x.shape, "z": grid.shape})) as known:
                np.testing.assert_allclose(compiled(x, grid), known(x, grid), rtol=1e-5, atol=1e-4)


def test_a_branch_for_an_axis_of_one_element_is_left_out():
    """TorchScript's `squeeze` of a dynamic axis: branches of different ranks, chosen by its size."""
    then = helper.make_graph([make("Squeeze", ["x", "one"], ["a"])], "then", [], [info("a")])
    other = helper.make_graph([make("Identity", ["x"], ["b"])], "else", [], [info("b")])
    nodes = [
        make("Shape", ["x"], ["shape"]),
        make("Gather", ["shape", "number"], ["size"], axis=0),
        make("Equal", ["size", "number"], ["is_one"]),
        make("If", ["is_one"], ["z"], then_branch=then, else_branch=other),
        make("Relu", ["z"], ["y"]),
    ]
    constants = {"one": np.array([1]), "number": np.array(1)}
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", [info("x", ["N", "T", 4])], [info("y")], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    with graphc.compile(proto) as compiled:
        x = np.arange(-12, 12, dtype=F).reshape(2, 3, 4)
        np.testing.assert_array_equal(compiled(x), np.maximum(x, 0))
        with pytest.raises(UserError, match="T in 2"):
            compiled(x[:, :1].copy())


def info(name, shape=None):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def test_a_squeezed_dimension_is_1():
    proto = model_of(make("Squeeze", ["x", "i"], ["y"]), {"x": ["N", "D"]}, {"i": np.array([1])})
    assert shapes_of(proto) == {"x": "f32[N,1]"}


@pytest.mark.parametrize(
    ("node", "shapes"),
    [
        (make("GatherElements", ["x", "i"], ["y"], axis=1), [(2, 5), (4, 1)]),
        (make("ScatterElements", ["x", "i", "u"], ["y"], axis=1), [(2, 5), (4, 3)]),
    ],
)
def test_indices_need_as_many_rows(node, shapes):
    constants = {"i": np.array([[0], [-1]]), "u": np.ones((2, 1), F)}
    with graphc.compile(model_of(node, {"x": ["N", "D"]}, constants)) as compiled:
        for shape in shapes:
            x = np.arange(np.prod(shape), dtype=F).reshape(shape)
            if node.op_type == "GatherElements":
                wanted = x[[0, 1], [0, -1]][:, None]
            else:
                wanted = x.copy()
                wanted[[0, 1], [0, -1]] = 1
            np.testing.assert_array_equal(compiled(x), wanted)
        with pytest.raises(UserError, match="N in 2"):
            compiled(np.ones((1, 5), F))


def test_updates_have_the_shape_of_constant_indices():
    node = make("ScatterElements", ["x", "i", "u"], ["y"], axis=1)
    inputs = {"x": [3, 5], "u": ["R", "C"]}
    assert shapes_of(model_of(node, inputs, {"i": np.array([[0], [4]])})) == {
        "x": "f32[3,5]",
        "u": "f32[2,1]",
    }


def test_scanned_inputs_have_one_length():
    names = ("a", "b", "sum", "row")
    kinds = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in names}
    nodes = [make("Sub", ["a", "b"], ["sum"]), make("Identity", ["sum"], ["row"])]
    body = helper.make_graph(nodes, "b", [kinds["a"], kinds["b"]], [kinds["row"]])
    directions = {"scan_input_directions": [1, 0], "scan_output_directions": [1]}
    node = make("Scan", ["x", "z"], ["y"], body=body, num_scan_inputs=2, **directions)
    with graphc.compile(model_of(node, {"x": ["T", 2], "z": ["S", 2]})) as compiled:
        for steps in (1, 4, 7):
            x = np.arange(2 * steps, dtype=F).reshape(steps, 2)
            np.testing.assert_array_equal(compiled(x, x * x), (x[::-1] - x * x)[::-1])


def test_sizes_that_may_agree_are_no_error_of_the_model():
    nodes = [make("Flatten", ["x"], ["f"]), make("MatMul", ["f", "c"], ["y"])]
    proto = model_of(nodes[0], {"x": ["N", "H", "W"]}, {"c": np.ones((12, 2), F)})
    proto.graph.node.append(nodes[1])
    proto.graph.output[0].name = "y"
    rule = "got K=H\\*W and K=12: whether these sizes agree is not known at compile time"
    with pytest.raises(UnsupportedError, match=rule):
        load(proto)
    with graphc.compile(proto, inputs={"x": "f32[N,3,4]"}) as compiled:
        np.testing.assert_array_equal(compiled(np.ones((2, 3, 4), F)), np.full((2, 2), 12, F))


@pytest.mark.parametrize(("reduction", "count"), [("ReduceMin", min), ("ReduceMax", max)])
def test_k_is_the_min_or_largest_of_sizes(reduction, count):
    nodes = [
        make("Shape", ["x"], ["s"]),
        make("Slice", ["s", "one", "two"], ["n"]),
        make("Concat", ["n", "five"], ["both"], axis=0),
        make(reduction, ["both"], ["k"], keepdims=1),
        make("Range", ["zero", "k", "step"], ["r"]),
    ]
    constants = {"one": [1], "two": [2], "five": [5], "zero": 0, "step": 1}
    proto = model_of(nodes[0], {"x": ["B", "N"]}, {n: np.array(v) for n, v in constants.items()})
    nodes.insert(4, make("Squeeze", ["k"], ["kk"]))
    nodes[5].input[1] = "kk"
    nodes.append(make("Cast", ["r"], ["y"], to=TensorProto.FLOAT))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    proto.graph.output[0].name = "y"
    with graphc.compile(proto) as compiled:
        for columns in (1, 4, 5, 6, 9):
            assert len(compiled(np.ones((2, columns), F))) == count(columns, 5)
