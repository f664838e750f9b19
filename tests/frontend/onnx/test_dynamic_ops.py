"""Ops of dynamic sizes that no rule of one symbol decides, beside ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import graphc
from graphc.base.errors import UserError

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


@pytest.mark.parametrize("equation", ["bii->bi", "bii", "ibi->b", "ibi->bi"])
def test_diagonals(equation: str, rng: np.random.Generator) -> None:
    axes = "B,N,N" if equation.startswith("b") else "N,B,N"
    text = f'g (float[{axes}] x) => (y) {{ y = Einsum<equation="{equation}">(x) }}'
    model = onnx.parser.parse_model(HEAD + text)
    compiled = graphc.compile(model, threads=1)
    for b, n in ((2, 1), (1, 4), (3, 9)):
        x = rng.random((b, n, n) if axes.startswith("B") else (n, b, n)).astype(np.float32)
        np.testing.assert_allclose(compiled(x), np.einsum(equation, x), rtol=1e-6)


def test_blocks_of_a_product_of_sizes(rng: np.random.Generator) -> None:
    text = "g (float[A,B] x) => (y) { s = Constant<value_ints=[-1,2,3]>() r = Reshape(x, s) y = Neg(r) }"
    model = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for dims in ((3, 4), (1, 6), (7, 18)):
        x = rng.random(dims).astype(np.float32)
        np.testing.assert_array_equal(compiled(x), session.run(None, {"x": x})[0])
    with pytest.raises(
        UserError, match=r"the other sizes must divide the number of elements: \[-1, 2, 3\]"
    ):
        compiled(np.zeros((5, 5), np.float32))


def test_a_prompt_has_no_cache_before_it(rng: np.random.Generator) -> None:
    """The causal mask of onnxruntime-genai's decoders is expanded from [S, S] to [S, P + S]."""
    text = """g (float[S,2] x, float[P,2] past) => (y) {
        s = Shape<start=0, end=1>(x)
        p = Shape<start=0, end=1>(past)
        square = Concat<axis=0>(s, s)
        all = Add(s, p)
        wanted = Concat<axis=0>(s, all)
        mask = ConstantOfShape<value = float[1] {1.5}>(square)
        wide = Expand(mask, wanted)
        rows = Concat<axis=0>(past, x)
        y = MatMul(wide, rows)
    }"""
    model = onnx.parser.parse_model(HEAD + text)
    compiled = graphc.compile(model, inputs={"x": "f32[S=2..,2]"}, threads=1)
    assert str(compiled.inputs[1]) == "past: f32[0,2]"
    for rows in (2, 7):
        x = rng.random((rows, 2)).astype(np.float32)
        np.testing.assert_allclose(
            compiled(x, np.zeros((0, 2), np.float32)), np.full((rows, rows), 1.5) @ x, rtol=1e-6
        )


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1), (2, 1, 6), (4, 3, 1)])
def test_a_shape_that_data_decide_broadcasts_with_known_sizes(shape: tuple[int, ...]) -> None:
    """The sizes of x that are not 1 stay, whether the shape says 1 or the same there."""
    x, rank = np.arange(3, dtype=np.float32).reshape(3, 1), len(shape)
    text = f"g (float[3,1] x, int64[{rank}] s) => (y) {{ y = Expand(x, s) }}"
    compiled = graphc.compile(onnx.parser.parse_model(HEAD + text), threads=1)
    result = compiled(x, np.array(shape, np.int64))
    np.testing.assert_array_equal(result, x * np.ones(shape, np.float32))


@pytest.mark.parametrize(
    ("dims", "pads"),
    [("N,1,9,11", (1, 1, 1, 1)), ("N,1,9,11", (0, 1, 2, 0)), ("N,1,H,W", (1, 1, 1, 1))],
)
def test_counts_of_windows_beyond_included_padding(dims: str, pads: tuple[int, ...]) -> None:
    """A last window of ceil_mode divides by the elements that it has in x and its padding."""
    text = f"""g (float[{dims}] x) => (y) {{
        y = AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1, count_include_pad=1, pads={[*pads]}>(x)
    }}"""
    model = onnx.parser.parse_model(HEAD.replace("17", "19") + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for size in [(2, 1, 9, 11), *([(1, 1, 3, 8), (1, 1, 6, 4)] if "H" in dims else [])]:
        x = np.arange(np.prod(size), dtype=np.float32).reshape(size)
        np.testing.assert_allclose(compiled(x), session.run(None, {"x": x})[0], rtol=1e-6)


def test_a_dynamic_size_is_cropped_from_some_size_on() -> None:
    text = "g (int32[N] x) => (y) { p = Constant<value_ints=[1,-3]>() y = Pad(x, p) }"
    model = onnx.parser.parse_model(HEAD + text)
    compiled = graphc.compile(model, threads=1)
    for rows in (2, 3, 9):
        x = np.arange(1, rows + 1, dtype=np.int32)
        np.testing.assert_array_equal(compiled(x), np.concatenate([[0], x])[:-3])
    with pytest.raises(UserError, match=r"N in 2\.\."):
        compiled(np.zeros(1, np.int32))


IMAGES = [(1, 3, 7, 8), (2, 3, 6, 9), (1, 3, 3, 16)]


def check_images(call: str, weights: str = "", opset: int = 19) -> None:
    text = f"g (float[N,3,H,W] x) => (y) {{ {weights} y = {call} }}"
    model = onnx.parser.parse_model(HEAD.replace("17", str(opset)) + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for size in IMAGES:
        x = np.arange(np.prod(size), dtype=np.float32).reshape(size) % 17 - 11
        found, (wanted,) = compiled(x), session.run(None, {"x": x})
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op_type", ["Conv", "MaxPool", "AveragePool", "LpPool"])
def test_same_padding_of_any_size(op_type: str, mode: str) -> None:
    """Odd sizes have another padding than even ones, and strides beyond the window leave elements out."""
    weights = "w = ConstantOfShape<value=float[1]{2}>(s)"
    shape = "s = Constant<value_ints=[4,3,3,2]>()"
    for strides in ([2, 2], [2, 3]):
        pool = f'kernel_shape=[3,{strides[1]}], strides={strides}, auto_pad="{mode}"'
        if op_type == "Conv":
            check_images(f'Conv<strides={strides}, auto_pad="{mode}">(x, w)', shape + weights)
        else:
            check_images(f"{op_type}<{pool}>(x)")


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
def test_windows_that_would_begin_in_the_padding(op_type: str) -> None:
    check_images(f"{op_type}<kernel_shape=[2,2], strides=[3,3], pads=[1,1,1,1], ceil_mode=1>(x)")


def test_pads_of_all_axes_that_the_data_decide() -> None:
    text = """g (float[N,3,H,W] x, int64[8] p) => (y) {
        s = Constant<value_ints=[4,3,3,3]>() w = ConstantOfShape<value=float[1]{2}>(s)
        z = Pad(x, p) y = Conv(z, w)
    }"""
    model = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    x = np.arange(90, dtype=np.float32).reshape(1, 3, 5, 6)
    for pads in ([0] * 8, [0, 0, 1, 2, 0, 0, 3, 0], [1, 0, 0, 0, 2, 0, 0, 1]):
        feed = {"x": x, "p": np.array(pads)}
        np.testing.assert_array_equal(compiled.run(None, feed)[0], session.run(None, feed)[0])
    with pytest.raises(UserError, match="'p_1', which the data decide, must be 0"):
        compiled(x, np.array([0, 1, 0, 0, 0, 0, 0, 0]))


BY_SIZES = {
    "a mask of the cache and the new rows": (
        "float[S,2] x, float[P,2] y",
        """s = Shape<start=0, end=1>(x)
        p = Shape<start=0, end=1>(y)
        all = Add(s, p)
        wanted = Concat<axis=0>(s, all)
        ones = ConstantOfShape<value = float[1] {1.0}>(wanted)
        z = Trilu<upper=0>(ones, p)""",
    ),
    "tuples that stand for rows of a dynamic size": (
        "float[S,P] x, float[2,P] y",
        """i = Constant<value = int64[2,1] {-1, 0}>()
        z = ScatterND(x, i, y)""",
    ),
    "tuples of two of three axes": (
        "float[S,P,2] x, float[2,2] y",
        """i = Constant<value = int64[2,2] {0, -1, -1, 0}>()
        z = ScatterND<reduction="add">(x, i, y)""",
    ),
    "one value where a condition holds, counted twice": (
        "float[S,P] x, float[1] y",
        """f = Constant<value = float[1] {0.0}>()
        m = Greater(x, f)
        n = NonZero(m)
        i = Transpose<perm=[1,0]>(n)
        c = Cast<to=7>(m)
        count = ReduceSum<keepdims=0>(c)
        shape = Reshape(count, a)
        all = Expand(y, shape)
        minus = Constant<value_ints=[-1]>()
        flat = Reshape(all, minus)
        z = ScatterND(x, i, flat)""",
    ),
    "the largest of all axes from one on, before opset 13": (
        "float[S,P,3] x, float[1] y",
        "z = Hardmax<axis=1>(x)",
    ),
    "tuples of each batch": (
        "float[S,P,2] x, float[S,2] y",
        """f = Constant<value = float[1] {0.0}>()
        g = Greater(y, f)
        i = Cast<to=7>(g)
        j = Slice(i, b, e, a)
        z = GatherND<batch_dims=1>(x, j)
        """,
    ),
    "rows of a cache of dynamic sizes": (
        "float[S,P,N] x, float[S,2,N] y",
        """at = Shape<start=0, end=1>(x)
        ones = Expand(a, at)
        z = TensorScatter<axis=1, mode="circular">(x, y, ones)""",
    ),
    "columns of an image of a dynamic size": (
        "float[S,8,N] x, float[S,2,N] y",
        """s = Shape<start=2, end=3>(y)
        one = Constant<value_ints=[1]>()
        more = Add(s, one)
        image = Concat<axis=0>(two, more)
        block = Constant<value_ints=[2,2]>()
        z = Col2Im(x, image, block)""",
    ),
}


@pytest.mark.parametrize("name", BY_SIZES)
def test_ops_by_sizes(name: str, rng: np.random.Generator) -> None:
    inputs, body = BY_SIZES[name]
    numbers = "int64[1] b = {0}, int64[1] e = {1}, int64[1] a = {1}, int64[1] two = {2}"
    text = f"g ({inputs}) => (z) <{numbers}> {{ {body} }}"
    opset = "24" if "TensorScatter" in body else "11" if "Hardmax" in body else "18"
    model = onnx.parser.parse_model(HEAD.replace("17", opset) + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for sizes in ({"S": 3, "P": 4, "N": 5}, {"S": 1, "P": 2, "N": 1}, {"S": 4, "P": 9, "N": 17}):
        given = {
            one.name: rng.integers(-9, 9, [d.dim_value or sizes[d.dim_param] for d in dims]).astype(
                np.float32
            )
            for one in model.graph.input
            if (dims := one.type.tensor_type.shape.dim)
        }
        np.testing.assert_array_equal(compiled(**given), session.run(None, given)[0])


@pytest.mark.parametrize(("rank", "kernel"), [(1, [2]), (2, [3, 2]), (3, [2, 1, 2])])
@pytest.mark.parametrize("order", [0, 1])
def test_unpooling_by_the_indices_of_a_pool(
    rank: int, kernel: list[int], order: int, rng: np.random.Generator
) -> None:
    if order and rank != 2:
        pytest.skip("storage_order is one of planes")
    axes = ",".join(("B", "C", "H", "W", "D")[: 2 + rank])
    window = f"kernel_shape={kernel}, strides={kernel}"
    text = f"""g (float[{axes}] x) => (y, i) {{
        p, i = MaxPool<{window}, storage_order={order}>(x)
        y = MaxUnpool<{window}>(p, i) }}"""
    model = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for dims in ((1, 3, 6, 4, 4), (2, 1, 12, 10, 2)):
        x = rng.integers(-9, 9, dims[: 2 + rank]).astype(np.float32)
        for found, expected in zip(
            compiled.run(None, {"x": x}), session.run(None, {"x": x}), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


def test_unpooling_to_a_dynamic_size() -> None:
    """The specification's example, in which indices are those of the result without the larger size."""
    window = "kernel_shape=[2,2], strides=[2,2]"
    text = f"""g (float[1,1,H,W] x, int64[1,1,H,W] i, float[1,1,A,B] z) => (y) {{
        s = Shape(z)
        y = MaxUnpool<{window}>(x, i, s) }}"""
    compiled = graphc.compile(onnx.parser.parse_model(HEAD + text), threads=1)
    x = np.array([[5, 6], [7, 8]], np.float32).reshape(1, 1, 2, 2)
    index = np.array([[5, 7], [13, 15]]).reshape(1, 1, 2, 2)
    for dims in ((5, 5), (4, 7)):
        expected = np.zeros(dims, np.float32)
        expected[1, 1], expected[1, 3], expected[3, 1], expected[3, 3] = 5, 6, 7, 8
        found = compiled(x, index, np.zeros((1, 1, *dims), np.float32))
        np.testing.assert_array_equal(found[0, 0], expected)
    with pytest.raises(UserError, match="output_shape must be"):
        compiled(x, index, np.zeros((1, 1, 4, 3), np.float32))


@pytest.mark.parametrize("dims", ["N,M", "6,9"])
@pytest.mark.parametrize("given", ["a, b, axes, steps", "a, b, one, steps", "a, b, one, minus"])
def test_slices_backward_and_by_steps_that_data_decide(dims: str, given: str) -> None:
    text = f"""g (float[{dims}] x, int64[1] a, int64[1] b, int64[1] axes, int64[1] steps) => (y) {{
        one = Constant<value_ints=[1]>()
        minus = Constant<value_ints=[-2]>()
        y = Slice(x, {given}) }}"""
    compiled = graphc.compile(onnx.parser.parse_model(HEAD + text), threads=1)
    x = np.arange(54, dtype=np.float32).reshape(6, 9)
    cases = [(8, -100, -1), (7, 1, -2), (-1, -1, -2), (1, 8, 2), (100, -9, -3)]
    cases += [(8, -100, -(2**63)), (1, 8, 2**63 - 1)]
    for first, last, step in cases:
        step = -2 if "minus" in given else step
        numbers = (np.array([n]) for n in (first, last, 1, step))
        names = (one.name for one in compiled.inputs[1:])
        values = dict(zip(("a", "b", "axes", "steps"), numbers, strict=True))
        found = compiled.run(None, {"x": x, **{name: values[name] for name in names}})[0]
        np.testing.assert_array_equal(found, x[:, first:last:step])


@pytest.mark.parametrize("step", [2**31 - 1, 2**31, 2**63 - 1, -(2**31), -(2**62), -(2**63)])
@pytest.mark.parametrize("dims", ["N", "7"])
def test_steps_longer_than_any_axis_take_one_element(dims: str, step: int) -> None:
    first, last = (0, 2**63 - 1) if step > 0 else (2**63 - 1, -(2**63))
    constants = {"a": first, "b": last, "c": 0, "d": step}
    lines = [f"{name} = Constant<value_ints=[{n}]>()" for name, n in constants.items()]
    text = f"g (float[{dims}] x) => (y) {{ {' '.join(lines)} y = Slice(x, a, b, c, d) }}"
    compiled = graphc.compile(onnx.parser.parse_model(HEAD + text), threads=1)
    x = np.arange(1, 8, dtype=np.float32)
    np.testing.assert_array_equal(compiled(x), x[::step])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("dims", ["N,2,H,W", "2,2,6,8"])
def test_a_region_that_data_decide_is_resized(
    mode: str, dims: str, rng: np.random.Generator
) -> None:
    attrs = 'coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=2.5'
    text = f"""g (float[{dims}] x, float[4] roi) => (y) {{
        s = Constant<value_ints=[5,7]>()
        y = Resize<mode="{mode}", axes=[2,3], {attrs}>(x, roi, , s) }}"""
    model = onnx.parser.parse_model(HEAD.replace("17", "18") + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for shape, roi in (((2, 2, 6, 8), (0.1, 0.2, 0.7, 1.1)), ((1, 2, 9, 5), (0.9, 0.3, 0.2, 0.8))):
        shape = shape if dims.startswith("N") else (2, 2, 6, 8)
        given = {"x": rng.random(shape, np.float32), "roi": np.array(roi, np.float32)}
        found, expected = (one.run(None, given)[0] for one in (compiled, session))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_distinct_slices_of_any_width(axis: int, rng: np.random.Generator) -> None:
    text = f"g (float[N,M] x) => (y, i, j, n) {{ y, i, j, n = Unique<axis={axis}>(x) }}"
    model = onnx.parser.parse_model(HEAD + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for rows, columns in ((5, 1), (9, 70), (1, 3)):
        x = rng.integers(0, 2, (rows, columns)).astype(np.float32)
        x = np.concatenate([x, x[::-1]], axis)
        for found, expected in zip(
            compiled.run(None, {"x": x}), session.run(None, {"x": x}), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("text", ["y = NonZero(x)", "n = Neg(x) y = NonZero(n)"])
def test_a_scalar_has_no_axes_to_index(text: str) -> None:
    """The specification: (0, N), where NumPy and ONNX Runtime have (1, N)."""
    compiled = graphc.compile(onnx.parser.parse_model(f"{HEAD} g (float x) => (y) {{ {text} }}"))
    for value in (3.0, 0.0):
        assert compiled(np.array(value, np.float32)).shape == (0, int(value != 0))


def test_a_squeeze_of_a_count() -> None:
    """torch.onnx writes a branch for one row, whose rank is another: a run that counts one is refused."""
    text = """g (float[N] x) => (y) {
        n = NonZero(x)
        rows = Transpose(n)
        s = Shape<start=0, end=1>(rows)
        one = Constant<value_ints=[1]>()
        same = Equal(s, one)
        c = Squeeze(same)
        y = If(c) <
            then_branch = a () => (o) { axes = Constant<value_ints=[0]>() o = Squeeze(rows, axes) },
            else_branch = b () => (p) { p = Identity(rows) }> }"""
    compiled = graphc.compile(onnx.parser.parse_model(HEAD + text), threads=1)
    for x in ([1, 0, 1], [0, 0], [1, 2, 3, 4]):
        found = compiled(np.array(x, np.float32))
        np.testing.assert_array_equal(found, np.flatnonzero(x)[:, None])
    with pytest.raises(
        UserError, match="a branch must not be taken: .*squeezed axes must have size 1"
    ):
        compiled(np.array([0, 1], np.float32))


def check(text: str, feeds: list[dict[str, np.ndarray]]) -> None:
    """Compare a model of opset 18 with ONNX Runtime."""
    model = onnx.parser.parse_model(HEAD.replace("17", "18") + text)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    compiled = graphc.compile(model, threads=1)
    for feed in feeds:
        for found, want in zip(compiled.run(None, feed), session.run(None, feed), strict=True):
            np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("dims", ["N,M", "1,M", "4,6"])
def test_dynamic_sizes_broadcast_with_a_shape_that_data_decide(dims: str) -> None:
    """A size may be 1 in x, in the shape or in neither."""
    shapes = [(4, 6)] if dims == "4,6" else [(1, 6), (1, 1)] if dims == "1,M" else [(4, 1), (1, 6)]
    text = f"g (float[{dims}] x, int64[2] s) => (y) {{ y = Expand(x, s) }}"
    compiled = graphc.compile(onnx.parser.parse_model(HEAD + text), threads=1)
    for shape in shapes:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        for s in ((4, 6), (1, 1), (4, 1), (3, 6)):
            if s[0] == 3 and shape[0] == 4:
                with pytest.raises(UserError, match="must broadcast"):
                    compiled(x, np.array(s))
            else:
                found, want = compiled(x, np.array(s)), np.broadcast_shapes(shape, s)
                np.testing.assert_array_equal(found, np.broadcast_to(x, want))


@pytest.mark.parametrize("first", [-9, -2, 2**31 - 1])
@pytest.mark.parametrize("dims", ["N", "2", "given"])
def test_backward_slices_that_begin_before_all_elements(dims: str, first: int) -> None:
    """They begin at the first element, unlike Python's, also where the start is data."""
    numbers = {"a": first, "b": -100, "c": -1}
    held = [f"{n} = Constant<value_ints=[{value}]>()" for n, value in numbers.items()]
    given = dims == "given"
    check(
        f"""g (float[{"N" if given else dims}] x{", int64[1] a" if given else ""}) => (float[M] y) {{
            {" ".join(held[given:])}
            d = Constant<value_ints=[0]>()
            y = Slice(x, a, b, d, c) }}""",
        [
            {"x": np.arange(n, dtype=np.float32), **({"a": np.array([first])} if given else {})}
            for n in ((2,) if dims == "2" else (1, 2, 7))
        ],
    )


def test_uneven_parts_of_a_dynamic_size() -> None:
    check(
        """g (float[2,N] x) => (float[2,A] a, float[2,B] b, float[2,C] c, float[2,D] d) {
            a, b, c = Split<axis=1, num_outputs=3>(x)
            e, f = Split<axis=1, num_outputs=2>(x)
            d = Concat<axis=1>(f, e) }""",
        [{"x": np.arange(2 * n, dtype=np.float32).reshape(2, n)} for n in (9, 8, 7, 4)],
    )


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("axes", ["H,W", "D,H,W"])
def test_affine_grids_of_one_image_and_of_any_size(axes: str, aligned: int) -> None:
    """The branch for other ranks in the function's body of ONNX is not valid for a batch of 1."""
    rank = axes.count(",") + 1
    call = f"g = AffineGrid<align_corners={aligned}>(t, s)"
    head = HEAD.replace("17", "20")
    for batch in ("1", "N"):
        text = f"g (float[{batch},2,{axes}] x, float[{batch},{rank},{rank + 1}] t) => (g) {{ s = Shape(x) {call} }}"
        model = onnx.parser.parse_model(head + text)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        compiled = graphc.compile(model, threads=1)
        for n, sizes in ((1, (3, 4, 5)), (1, (1, 1, 1)), (3, (2, 1, 7))):
            if batch == "N" or n == 1:
                x = np.zeros((n, 2, *sizes[:rank]), np.float32)
                t = np.arange(n * rank * (rank + 1), dtype=np.float32).reshape(n, rank, rank + 1)
                (wanted,) = session.run(None, {"x": x, "t": t})
                np.testing.assert_allclose(compiled(x, t), wanted, rtol=1e-5, atol=1e-5)
