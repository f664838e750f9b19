import itertools

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.format import parse_format
from support.check_op import ALL, check_op, make_op, random_array


def counted(shape):
    """0, 1, 2, ... in `shape`: every element tells where it came from."""
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_moves_unchanged(dtype):
    x = random_array(dtype, (2, 3))
    check_op("transpose", [x], {"perm": (1, 0)}, x.T)
    check_op("broadcast", [x], {"shape": (2, 2, 3)}, np.stack([x, x]))
    check_op("concat", [x, x], {"axis": 0}, np.vstack([x, x]))
    check_op("slice", [x], {"starts": (0, 2), "steps": (1, -2), "sizes": (2, 2)}, x[:, ::-2])
    check_op("reorder", [x], {"format": parse_format("KM", "MK")}, x)


# --- transpose -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("perm", list(itertools.permutations(range(3))))
def test_transpose(perm):
    x = counted((2, 3, 5))
    check_op("transpose", [x], {"perm": perm}, x.transpose(perm))


@pytest.mark.parametrize(
    ("shape", "perm"), [((), ()), ((4,), (0,)), ((0, 3), (1, 0)), ((2, 3), (-1, 0))]
)
def test_transpose_corners(shape, perm):
    x = counted(shape)
    check_op("transpose", [x], {"perm": perm}, x.transpose(perm))


# --- broadcast -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "result"),
    [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((1, 3), (4, 5, 3)), ((1,), (0,)), ((), ()),
     ((2, 1, 1), (2, 3, 4))],
)  # fmt: skip
def test_broadcast(source, result):
    x = counted(source)
    check_op("broadcast", [x], {"shape": result}, np.broadcast_to(x, result))


# --- concat --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_concat(axis):
    arrays = [counted((2, 3, 2)), counted((2, 3, 2)) + 100, counted((2, 3, 2)) + 200]
    check_op("concat", arrays, {"axis": axis}, np.concatenate(arrays, axis))


@pytest.mark.parametrize("sizes", [(3,), (1, 4), (0, 2), (2, 0, 3), (0, 0), (5, 0)])
def test_concat_of_unequal_and_empty_parts(sizes):
    arrays = [counted((2, size)) + 10 * i for i, size in enumerate(sizes)]
    check_op("concat", arrays, {"axis": 1}, np.concatenate(arrays, 1))


# --- slice ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "step", "size"),
    [(0, 1, 7), (2, 1, 3), (6, -1, 7), (5, -2, 3), (0, 3, 3), (6, 1, 1), (3, 1, 0), (9, 1, 0), (0, 6, 2), (4, -4, 2)],
)  # fmt: skip
def test_slice(start, step, size):
    x = counted((2, 7))
    indices = [start + step * i for i in range(size)]
    attrs = {"starts": (0, start), "steps": (1, step), "sizes": (2, size)}
    check_op("slice", [x], attrs, x[:, indices])


def test_slice_steps_default_to_one():
    x = counted((4, 4))
    check_op("slice", [x], {"starts": (1, 2), "sizes": (2, 2)}, x[1:3, 2:4])


# --- reorder -------------------------------------------------------------------------------------------------------


def test_reorder_changes_the_format_alone():
    x = counted((5, 20))
    fmt = parse_format("MK16k")
    op = make_op("reorder", [x], {"format": fmt})
    assert str(op.outputs[0].details) == "s32[5,20]{MK16k}"
    assert op.outputs[0].details.physical_dims == (5, 2, 16)
    check_op("reorder", [x], {"format": fmt}, x)


def test_movement_costs_nothing():
    assert make_op("transpose", [counted((2, 3))], {"perm": (1, 0)}).get_gflop() == 0


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("transpose", [(2, 3)], {"perm": (0, 0)}, "transpose 'x': perm must name each of the 2 axes once, got [0, 0]"),
        ("transpose", [(2, 3)], {"perm": (0,)},
         "transpose 'x': perm must have one entry for each of the 2 axes, got [0]"),
        ("transpose", [(2, 3)], {}, "transpose 'x': attribute 'perm' must be given, got no attributes"),
        ("broadcast", [(2, 3)], {"shape": (2, 4)},
         "broadcast 'x': the input must broadcast to shape, got [2, 3] and [2, 4]"),
        ("broadcast", [(1, 3)], {"shape": (3,)},
         "broadcast 'x': the input must broadcast to shape, got [1, 3] and [3]"),
        ("concat", [(2, 3), (2, 4)], {"axis": 0},
         "concat 'x': inputs must agree in dtype and in all sizes but that of axis 0, got s32[2,3] and s32[2,4]"),
        ("concat", [(3,), ()], {"axis": 0},
         "concat 'x': inputs must agree in dtype and in all sizes but that of axis 0, got s32[3] and s32[]"),
        ("concat", [(2, 3), (3,)], {"axis": 0},
         "concat 'x': inputs must agree in dtype and in all sizes but that of axis 0, got s32[2,3] and s32[3]"),
        ("concat", [(2, 3)], {"axis": 2}, "concat 'x': axis must be in [-2, 2), got 2"),
        ("concat", [], {"axis": 0}, "concat 'x': inputs must be x..., got 0 inputs"),
        ("slice", [(4,)], {"starts": (2,), "steps": (1,), "sizes": (3,)},
         "slice 'x': the slice of axis 0 must lie in its 4 elements, got start 2, step 1, size 3"),
        ("slice", [(4,)], {"starts": (2,), "steps": (0,), "sizes": (1,)},
         "slice 'x': the slice of axis 0 must lie in its 4 elements, got start 2, step 0, size 1"),
        ("reorder", [(4,)], {"format": None}, "reorder 'x': attribute 'format' must be a layout, got None"),
        ("reorder", [(4,)], {"format": parse_format("MK")}, "reorder 'x': format must have the input's rank 1, got MK"),
        ("transpose", [(2,), (2,)], {"perm": (0,)}, "transpose 'x': inputs must be x, got 2 inputs"),
    ],
)  # fmt: skip
def test_rejects(name, shapes, attrs, message):
    with pytest.raises(UserError) as error:
        make_op(name, [counted(shape) for shape in shapes], attrs)
    assert str(error.value) == message
