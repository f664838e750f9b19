from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.format import Format, channels_last, matrix_axes, parse_format, plain
from graphc.graph_ir.text.printer import print_format
from graphc.tensor_ir.nodes import Const, Expr


def value(expr: Expr) -> int:
    assert isinstance(expr, Const), expr
    return int(expr.value)


def exprs(indices: tuple[int, ...]) -> list[Expr]:
    from graphc.tensor_ir import builder as t

    return [t.as_expr(i) for i in indices]


@st.composite
def formats(draw: st.DrawFn, max_rank: int = 4) -> Format:
    rank = draw(st.integers(0, max_rank))
    order = list(draw(st.permutations(range(rank))))
    blocks = [0] * rank
    for _ in range(draw(st.integers(0, 3)) if rank else 0):
        axis = draw(st.integers(0, rank - 1))
        position = draw(st.integers(order.index(axis) + 1, len(order)))
        order.insert(position, axis)
        blocks.insert(position, draw(st.integers(1, 4)))
    return Format(plain(rank).axes, tuple(order), tuple(blocks))


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[Format, tuple[int, ...]]:
    format = draw(formats())
    return format, tuple(draw(st.integers(0, 7)) for _ in range(format.rank))


def addresses(format: Format, dims: tuple[int, ...]) -> np.ndarray:
    """Address of each plain element, from packing the plain positions."""
    numbers = np.arange(1, math.prod(dims) + 1).reshape(dims)
    packed = format.pack(numbers).reshape(-1)
    where = np.full(math.prod(dims) + 1, -1)
    where[packed] = np.arange(packed.size)
    return where[1:]


@given(formats())
def test_text_round_trip(format: Format) -> None:
    read = parse_format(str(format))
    assert read == format and hash(read) == hash(format)
    assert str(read) == str(format)


@given(laid_out())
def test_unpack_inverts_pack(case: tuple[Format, tuple[int, ...]]) -> None:
    format, dims = case
    array = np.arange(math.prod(dims)).reshape(dims)
    packed = format.pack(array)
    assert packed.shape == format.physical_dims(dims)
    assert packed.flags.c_contiguous
    back = format.unpack(packed, dims)
    assert back.shape == dims and back.flags.c_contiguous
    np.testing.assert_array_equal(back, array)


@given(laid_out())
def test_padding_is_zero(case: tuple[Format, tuple[int, ...]]) -> None:
    format, dims = case
    packed = format.pack(np.ones(dims, np.int64))
    assert packed.sum() == math.prod(dims)


@given(laid_out())
def test_indices_agree_with_pack(case: tuple[Format, tuple[int, ...]]) -> None:
    format, dims = case
    array = np.arange(math.prod(dims)).reshape(dims)
    packed = format.pack(array)
    for plain_index in itertools.islice(np.ndindex(*dims), 60):
        blocked = tuple(value(e) for e in format.blocked_index(exprs(plain_index)))
        assert packed[blocked] == array[plain_index]
        assert tuple(value(e) for e in format.plain_index(exprs(blocked))) == plain_index


@given(laid_out(), st.data())
def test_is_view_of_agrees_with_addresses(
    case: tuple[Format, tuple[int, ...]], data: st.DataObject
) -> None:
    format, dims = case
    same_rank = formats().filter(lambda f: f.rank == format.rank)
    other = data.draw(st.one_of(st.just(format), st.just(plain(format.rank)), same_rank))
    same = np.array_equal(addresses(format, dims), addresses(other, dims))
    if format.is_view_of(other, dims):
        assert same
    elif not format.is_padded(dims) and not other.is_padded(dims):
        assert not same
    assert format.is_view_of(other, dims) == other.is_view_of(format, dims)


@pytest.mark.parametrize(
    ("one", "two", "dims", "same"),
    [
        ("NCHW", "NHWC", (2, 1, 3, 4), True),
        ("NCHW", "NHWC", (2, 3, 1, 1), True),
        ("NCHW", "NHWC", (2, 3, 1, 2), False),
        ("MK", "MK16k", (5, 32), True),
        ("MK", "MK16k", (5, 33), False),
        ("MK", "MK4m4k", (4, 4), True),
        ("MK", "MK4m4k", (4, 8), False),
        ("MK4m4k", "MK4m4k", (3, 3), True),
        ("NK8k2k", "NK16k", (3, 40), True),
        ("MK", "KM", (0, 5), True),
    ],
)
def test_is_view_of_cases(one: str, two: str, dims: tuple[int, ...], same: bool) -> None:
    assert parse_format(one).is_view_of(parse_format(two), dims) is same


def test_vnni_blocks_nest_from_left_to_right() -> None:
    format = parse_format("NK8k16n2k")
    assert format.axes == "KN" and format.order == (1, 0, 0, 1, 0)
    packed = format.pack(np.arange(16 * 16).reshape(16, 16))
    # element (k, n) = (5, 3): k = (0 * 8 + 2) * 2 + 1
    assert packed.shape == (1, 1, 8, 16, 2) and packed[0, 0, 2, 3, 1] == 5 * 16 + 3


def test_pack_keeps_scalars_and_bfloat16() -> None:
    assert plain(0).pack(np.array(3.0)).shape == ()
    assert plain(0).unpack(np.array(3.0), ()).shape == ()
    half = np.ones((3, 5), ml_dtypes.bfloat16)
    packed = parse_format("MK4m4k").pack(half)
    assert packed.dtype == half.dtype and packed.shape == (1, 2, 4, 4)
    assert float(packed.astype(F32.numpy).sum()) == 15.0


def test_equality_ignores_letters() -> None:
    assert parse_format("NCHW") == plain(4) and hash(parse_format("NCHW")) == hash(plain(4))
    assert parse_format("NHWC") != plain(4)


def test_letters_in_another_plain_order_are_written_out() -> None:
    format = parse_format("NCHW", "NHWC")
    assert not format.is_plain
    assert print_format(format) == "NCHW@NHWC"
    assert print_format(parse_format("NCHW16c")) == "NCHW16c"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be capitals"),
        ("mk", "must be capitals"),
        ("M K", "must be capitals"),
        ("MK16", "must be capitals"),
        ("MK0k", "blocks of 1 or more"),
        ("MK4n", "of axes in MK"),
        ("MMK", "once in capitals"),
        ("M4kK", "before its blocks"),
        ("XYZ", "must be those of a layout"),
    ],
)
def test_rejected_texts(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_format(text)


def test_too_many_axes() -> None:
    assert plain(16).rank == 16
    with pytest.raises(UserError, match="got 17; reshape it"):
        plain(17)


def test_channels_last() -> None:
    assert channels_last(4) == parse_format("NHWC", "NCHW")
    assert channels_last(3) == parse_format("NWC", "NCW")


@pytest.mark.parametrize(
    ("text", "axes"),
    [("KM", "MK"), ("NK16n4k", "KN"), ("BNK8n", "BKN"), ("ABMK", "ABMK"), ("DBAMN", "ABDMN")],
)
def test_letters_of_matrices(text: str, axes: str) -> None:
    """Batches of matrices have letters before those of the matrix."""
    found = parse_format(text)
    assert found.axes == axes == matrix_axes(found.rank, axes[-2:]) and str(found) == text


def test_letters_are_for_reading_alone() -> None:
    """A matmul's result is its reader's operand: no layout differs."""
    mn, mk = plain(2, "MN"), plain(2, "MK")
    assert mn == mk == plain(2) and hash(mn) == hash(mk) and str(mn) != str(mk)
    assert parse_format("NK16n", "NK").named("OI") == parse_format("OI16o", "OI")
