import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.computation import Pointwise
from graphc.graph_ir.ir.op_kinds import FusibleOp
from graphc.tensor_ir.nodes import Expr, Var
from support.check_op import ALL, check_op, make_op, random_array


def counted(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype(dtype):
    x = random_array(dtype, (2, 3))
    check_op("reshape", [x], {"shape": (3, 2)}, x.reshape(3, 2))


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ((6,), (2, 3)), ((2, 3), (6,)), ((2, 3, 4), (6, 4)), ((2, 3, 4), (2, 12)), ((4, 6), (3, 8)), ((4, 6), (8, 3)),
        ((2, 3, 5), (5, 3, 2)), ((), (1, 1)), ((1, 1), ()), ((1, 6, 1), (2, 1, 3)), ((2, 2, 2, 2), (4, 4)),
        ((0, 3), (3, 0)), ((5, 0), (0,)), ((6, 4), (2, 3, 2, 2)), ((7, 11), (11, 7)), ((3, 4), (3, 1, 4)),
    ],
)  # fmt: skip
def test_reshape(source, result):
    x = counted(source)
    check_op("reshape", [x], {"shape": result}, x.reshape(result))


def test_reshape_keeps_untouched_axes_out_of_the_arithmetic():
    op = make_op("reshape", [counted((8, 16, 12))], {"shape": (8, 16, 3, 4)})
    assert isinstance(op, FusibleOp)
    computation = op.computation()
    assert isinstance(computation, Pointwise)
    seen: list[tuple[Expr, ...]] = []

    def read(position: tuple[Expr, ...]) -> Expr:
        seen.append(position)
        return position[0]

    index = tuple(_variables(4))
    computation.element([read], index)
    assert seen[0][:2] == index[:2]


def _variables(count):
    return [Var(f"i{axis}") for axis in range(count)]


@pytest.mark.parametrize("shape", [(4, 2), (-2, -3), ()])
def test_rejects_another_number_of_elements(shape):
    with pytest.raises(UserError) as error:
        make_op("reshape", [counted((2, 3))], {"shape": shape})
    rule = "shape must have as many elements as the input"
    assert str(error.value) == f"reshape 'x': {rule}, got [2, 3] and {list(shape)}"
