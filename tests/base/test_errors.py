"""Messages stay sentences, whatever they quote."""

from __future__ import annotations

import pytest

from graphc.base.errors import InternalError, UnsupportedError, UserError, one_line


@pytest.mark.parametrize("kind", [UserError, UnsupportedError])
def test_control_characters_and_long_words(kind: type[Exception]) -> None:
    assert str(kind("op 'a\nb\x00\u2028': é\tis no name")) == (
        "op 'a\\nb\\x00\\u2028': é\\tis no name"
    )
    assert str(kind(f"name '{'x' * 498}' is long")) == f"name '{'x' * 498}' is long"
    assert str(kind(f"name '{'x' * 1000}' is long")) == (
        f"name '{'x' * 199}[602 more]{'x' * 199}' is long"
    )


def test_long_lists_are_kept_and_endless_ones_cut() -> None:
    listed = ", ".join(f"'weight{i}'" for i in range(3000))
    assert one_line(listed) == listed
    assert len(one_line("a " * 10**6)) < 51_000
    assert one_line(one_line("x" * 10**6)) == one_line("x" * 10**6)


def test_internal_errors_keep_their_lines() -> None:
    assert str(InternalError("LLVM says:\nerror")) == "LLVM says:\nerror"
