"""Sizes that are known when a model runs: normal form, order by ranges, exact division, text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from graphc.base.dims import (
    MOST,
    Dim,
    Limit,
    NeedsLimit,
    Size,
    Symbol,
    UndecidedSize,
    bounds,
    ceil_quotient,
    evaluate,
    floor_quotient,
    maximum,
    minimum,
    size,
    substitute,
    symbols_of,
)
from graphc.base.errors import UserError
from graphc.base.size_limits import (
    at_least,
    broadcast_sizes,
    check_equal,
    known_limits,
    limited,
    within_limits,
)
from graphc.base.size_queries import factored, is_multiple, lone_symbol, solved, typical
from graphc.base.size_text import parse_range, parse_size
from graphc.base.symbols import symbol_name

N, B, S = (Symbol("N", 1, 512), Symbol("B"), Symbol("S", 2, 8))
n, b, s = map(size, (N, B, S))


def test_equal_expressions_have_one_form() -> None:
    assert b * s * 4 + n == n + 2 * s * (b + b)
    assert hash(b * s) == hash(s * b)
    assert n - n == 0 and type(n - n) is int
    assert n != 1 and n != 1 and n not in (0, 1)
    assert n * 2 // 2 == n and size(Symbol("K", 7, 7)) == 7


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (n, "N"),
        (2 * n + 1, "2*N+1"),
        (b * s - s, "B*S-S"),
        (-n, "-N"),
        (3 - b, "-B+3"),
        (b * b, "B*B"),
    ],
)
def test_text_is_read_back(value: Size, text: str) -> None:
    assert str(value) == text
    assert parse_size(text, {"N": N, "B": B, "S": S}) == value


@pytest.mark.parametrize("text", ["", "N/2", "2**", "N N", "N=1..2"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse_size(text, {"N": N})


def test_order_is_decided_by_ranges() -> None:
    assert n >= 1 and n <= 512 and n > 0 and n < 513 and b * s >= 2
    assert not n > 512 and bool(n) and max(n, 1) == n and min(n, 600) == n
    for undecided in (lambda: n > 1, lambda: n < s, lambda: min(n, 128)):
        with pytest.raises(UndecidedSize, match="is not known at compile time"):
            undecided()


def test_division_has_no_remainder() -> None:
    assert b * s * 768 // (s * 64) == 12 * b and (b * s + b) // (s + 1) == b
    assert divmod(n * 4, 4) == (n, 0) and n * 8 % 4 == 0 and 0 // n == 0
    for undecided in (
        lambda: n // 2,
        lambda: n % 2,
        lambda: b // s,
        lambda: 8 // n,
        lambda: n // (n + 1),
    ):
        with pytest.raises(UndecidedSize, match="divides"):
            undecided()


def test_an_expression_is_no_number() -> None:
    for number in (int, float, range, lambda x: x / 2, lambda x: [0][x]):
        with pytest.raises(UndecidedSize, match="the size N must be a number"):
            number(n)


def test_values() -> None:
    assert evaluate(2 * n * s - b, {"N": 3, "S": 4, "B": 5}) == 19
    assert typical(b) == 64 and typical(s) == 8 and typical(3) == 3
    assert bounds(n * s - 1) == (1, 4095) and bounds(2 - s) == (-6, 0)
    assert factored(12 * b * s + 8 * s) == (4, 3 * b * s + 2 * s) and factored(6) == (6, 1)
    assert substitute(n * s, {"N": 4, "S": b}) == 4 * b
    assert symbols_of([3, n * s, b]) == (N, S, B)


def test_broadcasting() -> None:
    assert broadcast_sizes((n, 1, 4), (b, 1)) == (n, b, 4)
    assert broadcast_sizes((1, 0), (5, 1)) == (5, 0) and broadcast_sizes() == ()
    for shapes in (((n,), (513,)), ((3,), (2,)), ((2 * n,), (3,))):
        with pytest.raises(ValueError):
            broadcast_sizes(*shapes)


def test_sizes_that_must_be_one() -> None:
    """The later name goes, or the one that is alone; ranges that differ stay apart."""
    for one, other, limit in ((n, b, n), (n + 1, b, n + 1), (b, n * 2, n * 2)):
        with pytest.raises(NeedsLimit, match="must be one size") as error:
            broadcast_sizes((one,), (other,))
        assert (error.value.name, error.value.limit) == ("B", Limit(equal=limit))
    narrow = size(Symbol("N", 1, 8))
    assert limited(b * 3, {"B": Limit(equal=n + 1), "N": Limit(most=8)}) == 3 * narrow + 3
    with pytest.raises(ValueError):
        broadcast_sizes((size(Symbol("P", 1, 4)),), (size(Symbol("Q", 1, 5)),))
    tries = []

    def attempt(limits: Mapping[str, Limit]) -> Size:
        tries.append(dict(limits))
        return broadcast_sizes((limited(n, limits),), (limited(b, limits),))[0]

    assert within_limits(attempt, {}) == n and tries == [{}, {"B": Limit(equal=n)}]


def test_comparisons_that_no_range_decides_come_out_as_for_typical_sizes() -> None:
    """The model is made for those sizes, and not for the others."""
    for compare, limit in (
        (lambda b: b > 64, None),
        (lambda b: b >= 63, Limit(least=63)),
        (lambda b: b - 2 < 0, Limit(least=2)),
        (lambda b: b < 100, Limit(most=99)),
        (lambda b: 2 * b - 8 * ceil_quotient(b, 8) > 0, Limit(least=8)),
        (lambda b: n * b - n * 2 >= 0, Limit(least=2)),
    ):
        tries: list[Mapping[str, Limit]] = []

        def attempt(limits: Mapping[str, Limit], compare: Any = compare, tries: Any = tries) -> Any:
            tries.append(limits)
            return compare(limited(b, limits))

        if limit is None:
            with pytest.raises(UndecidedSize, match="B > 64 is not known"):
                within_limits(attempt, {})
        else:
            within_limits(attempt, {})
            assert tries == [{}, {"B": limit}]


def test_a_factor_decides_no_sign() -> None:
    least = minimum(0, b - 63)
    assert n * (ceil_quotient(b, 2) - least) > 0 and bounds(s * b - s)[0] == 0


def test_sizes_that_would_be_themselves_are_not_made_equal() -> None:
    needed = NeedsLimit("", "B", Limit(equal=n))
    assert known_limits({}, needed) == {"B": Limit(equal=n)}
    assert known_limits({"N": Limit(equal=b)}, needed) is None
    assert known_limits({"N": Limit(equal=2 * s), "S": Limit(equal=b + 1)}, needed) is None


def test_ranges_are_read() -> None:
    assert parse_range("1..64", "N") == Symbol("N", 1, 64)
    assert parse_range("8..", "N") == Symbol("N", 8, MOST)
    assert Symbol("N", 8).range_text == "8.." and not Symbol("N").has_range


@pytest.mark.parametrize("range_", ["5..4", "-1..3", "x..4", "4", f"1..{MOST + 1}"])
def test_ranges_that_are_none_are_refused(range_: str) -> None:
    with pytest.raises(UserError, match="size 'N'"):
        parse_range(range_, "N")


def test_names() -> None:
    assert symbol_name("batch size") == "batch_size" and symbol_name("2x") == "_2x"
    assert symbol_name("--") == "size"
    with pytest.raises(UserError, match="must be named by letters"):
        Symbol("a b")
    assert str([Dim({(N,): 2}), 3]) == "[2*N, 3]"


def test_limits_of_symbols() -> None:
    n, m = Symbol("N", 2, 600), Symbol("M")
    both = size(n) * 3 + size(m)
    narrow = limited(both, {"N": Limit(most=512), "K": Limit(most=4)})
    assert narrow == size(Symbol("N", 2, 512)) * 3 + size(m) and narrow != both
    assert limited(both, {"N": Limit(most=700)}) == both and limited(7, {"N": Limit(most=1)}) == 7
    assert limited(size(n), {"N": Limit(most=2)}) == 2
    assert lone_symbol(size(n)) == n
    assert [lone_symbol(one) for one in (7, size(n) * 2, size(n) + 1, both)] == [None] * 4


def test_multiples_that_are_known() -> None:
    n = size(Symbol("N"))
    assert is_multiple(12, 4) and not is_multiple(13, 4)
    assert is_multiple(n * 12, 4) and is_multiple(n * n, n) and is_multiple(0, n)
    assert not is_multiple(512, n) and not is_multiple(n, 2)


def test_quotients_have_a_normal_form() -> None:
    """Repeated strides of a size become one quotient; a quotient without remainder disappears."""
    half = floor_quotient(b - 1, 2) + 1
    assert half == ceil_quotient(b, 2) and str(half) == "(B+1)//2"
    assert floor_quotient(half - 1, 2) + 1 == floor_quotient(b + 3, 4)
    assert (
        floor_quotient(4 * b + 6, 4) == b + 1
        and floor_quotient(6 * b, 4) == floor_quotient(b, 2) + b
    )
    assert substitute(half, {"B": 7}) == 4 and substitute(half, {"B": 2 * n}) == n
    assert evaluate(half * s, {"B": 7, "S": 3}) == 12 and symbols_of([half]) == (B,)
    assert parse_size(str(64 * half * s - half), {"B": B, "S": S}) == 64 * half * s - half
    with pytest.raises(UndecidedSize):
        _ = half // 2


def test_ranges_of_quotients() -> None:
    """Symbols cancel in the remainder of a division."""
    half = ceil_quotient(b, 2)
    assert bounds(2 * half - b) == (0, 1) and 2 * half >= b
    assert bounds(ceil_quotient(n, 2)) == (1, 256)
    wide = size(Symbol("W", 3))
    assert (wide - 2) * (n + 1) > 0 and not (wide - 2) * (n + 1) < 1


def test_what_sizes_must_be() -> None:
    """A least value, or a divisor, which makes the size a multiple of another symbol."""
    assert at_least(b, 1)
    with pytest.raises(NeedsLimit) as least:
        at_least(floor_quotient(b, 8), 3)
    assert (least.value.name, least.value.limit) == ("B", Limit(least=24))
    with pytest.raises(NeedsLimit) as most:
        at_least(32 - 3 * b, 1)
    assert (most.value.name, most.value.limit) == ("B", Limit(most=10))
    with pytest.raises(UndecidedSize, match="is not known") as undecided:
        at_least(32 - b - n, 0)
    assert not isinstance(undecided.value, NeedsLimit)
    with pytest.raises(NeedsLimit) as divisor:
        check_equal(b, 4 * floor_quotient(b, 4))
    limits = known_limits({"B": Limit(least=6)}, divisor.value)
    assert limits == {"B": Limit(least=6, divisor=4)}
    assert known_limits(limits, divisor.value) is None
    assert limited(b + 1, limits) == 4 * size(Symbol("B_4", 2, MOST // 4)) + 1
    check_equal(n * s, n * s + 1)
    check_equal(2 * n, 4 * floor_quotient(n, 4) + 1)


def test_numbers_that_must_divide() -> None:
    """The only symbol that can be a multiple is one."""
    for value, divisor, name, least in (
        (b, 2, "B", 2),
        (4 * b * s, 8 * s, "B", 2),
        (6 * b + 9, 9, "B", 3),
    ):
        with pytest.raises(NeedsLimit) as needed:
            value // divisor
        assert (needed.value.name, needed.value.limit) == (name, Limit(divisor=least))
    for value, divisor in ((b * s, 2), (b + 1, 2), (b, s)):
        with pytest.raises(UndecidedSize) as undecided:
            value % divisor
        assert not isinstance(undecided.value, NeedsLimit)


def test_the_smaller_of_two_sizes() -> None:
    smaller = minimum(b, 5)
    assert str(smaller) == "min(5;B)" and smaller == minimum(5, b) and bounds(smaller) == (1, 5)
    assert b - smaller >= 0 and smaller <= b and maximum(b, 5) >= 5 and minimum(s, 9) == s
    assert [evaluate(smaller, {"B": number}) for number in (1, 5, 9)] == [1, 5, 5]
    assert substitute(smaller, {"B": 3}) == 3 and substitute(smaller, {"B": s}) == minimum(s, 5)
    assert parse_size(str(2 * smaller + b), {"B": B}) == 2 * smaller + b
    assert bounds(b + minimum(5 - b, 0)) == (1, 5) and bounds(maximum(5 - b, 0) + b)[0] == 5


@pytest.mark.parametrize("rows", [minimum(b, 32), 32 - maximum(32 - b, 0), minimum(b + 1, 33) - 1])
def test_rows_of_a_table_are_as_many_as_are_wanted(rows: Size) -> None:
    for shapes in (((rows,), (b,)), ((b,), (rows,))):
        with pytest.raises(NeedsLimit) as needed:
            broadcast_sizes(*shapes)
        assert (needed.value.name, needed.value.limit) == ("B", Limit(most=32))


def test_symbols_are_found_from_sizes() -> None:
    assert solved(8 * b, 24) == (B, 3) and solved(b + 1, 4) == (B, 3)
    assert solved(8 * b, 25) is solved(b * s, 4) is solved(floor_quotient(b, 2), 4) is None
