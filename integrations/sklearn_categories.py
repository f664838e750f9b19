"""Categories of encoders as numbers: ONNX models get the numbers, and tables are encoded before a run.

An `OneHotEncoder` or `OrdinalEncoder` reads columns of texts, floats or booleans. In a copy of the estimator its
categories become 0, 1, ..., and `Categories` maps a column to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError, UserError

Array = np.ndarray[Any, Any]
Key = str | int
"""A column: its name in a table, or its number."""


class Categories:
    """The numbers of one column's categories.

    Args:
        values: the categories, in the order of their numbers.
        refuses_others: whether other values are errors, as in the encoder.
        fill: the category of missing values, if an imputer fills them.
    """

    def __init__(self, values: Array, refuses_others: bool, fill: Any = None) -> None:
        self._numbers = {_comparable(value): number for number, value in enumerate(values.tolist())}
        self._refuses_others = refuses_others
        if fill is not None:
            self._numbers[None] = self._numbers.get(_comparable(fill), -1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Categories) and self._numbers == other._numbers

    def encoded(self, column: Any, key: Key) -> Array:
        """Return the number of each value, -1 for others. May raise UserError."""
        values = np.asarray(column, object).reshape(-1).tolist()
        found = np.array([self._numbers.get(_comparable(x), -1) for x in values], np.int64)
        if self._refuses_others and (found < 0).any():
            known, other = list(self._numbers), values[int(np.argmin(found))]
            raise UserError(f"column '{key}' must hold one of {known[:9]}, got {other!r}")
        return found


def _comparable(value: Any) -> Any:
    """A category as a key of a dictionary: NaN, which differs from itself, becomes None, and so does pandas' NA."""
    is_missing = value is None or type(value).__name__ == "NAType" or value != value
    return None if is_missing else value


def number_categories(
    estimator: Any, keys: Sequence[Key]
) -> tuple[dict[Key, Categories], set[Key], set[Key]]:
    """Number the categories of all encoders of an estimator.

    Returns:
        The categories of each column, the columns of integers, and those that nothing reads.

    Raises:
        UnsupportedError: A column with such categories goes to something else than an encoder, too.
    """
    found: dict[Key, Categories] = {}
    integers, others = set[Key](), set[Key]()
    for part, columns, fills in _readers(estimator, list(keys)):
        given = getattr(part, "categories_", None)
        if given is None or not hasattr(part, "handle_unknown"):
            others.update(columns)
            continue
        if all(values.dtype.kind in "iu" for values in given):
            integers.update(columns)
            continue
        if hasattr(part, "encoded_missing_value") and any(_has_missing(values) for values in given):
            raise UnsupportedError(
                "OrdinalEncoder: missing values among the categories are not supported",
                "replace them before",
            )
        refuses = part.handle_unknown == "error"
        for key, values, fill in zip(columns, given, fills, strict=True):
            categories = Categories(values, refuses, fill)
            if found.setdefault(key, categories) != categories:
                raise UnsupportedError(
                    f"column '{key}' must have the same categories in all encoders; copy the column"
                )
        part.categories_ = [np.arange(len(values)) for values in given]
    mixed = sorted(map(str, others & found.keys()))
    if mixed:
        raise UnsupportedError(
            f"columns of categories must be read by encoders alone, got {', '.join(mixed)} for other steps too; "
            "copy these columns"
        )
    return found, integers - found.keys(), set(keys) - found.keys() - integers - others


def _has_missing(values: Array) -> bool:
    return any(_comparable(value) is None for value in values.tolist())


def _readers(estimator: Any, keys: list[Key]) -> Iterator[tuple[Any, list[Key], Sequence[Any]]]:
    """Yield the estimators that read columns of the input, which columns, and what fills their missing values.

    An imputer of categories is taken out of its pipeline.
    """
    if hasattr(estimator, "best_estimator_"):
        yield from _readers(estimator.best_estimator_, keys)
    elif hasattr(estimator, "transformers_"):  # ColumnTransformer
        for _, part, columns in estimator.transformers_:
            if not isinstance(part, str) or part != "drop":
                yield from _readers(part, _chosen(columns, keys))
    elif hasattr(estimator, "transformer_list"):  # FeatureUnion
        for _, part in estimator.transformer_list:
            yield from _readers(part, keys)
    elif hasattr(estimator, "steps"):
        kept = [step for step in estimator.steps if step[1] not in (None, "passthrough")]
        fills = getattr(kept[0][1] if kept else None, "statistics_", np.empty(0))
        if fills.dtype == object and len(kept) > 1 and hasattr(kept[1][1], "categories_"):
            estimator.steps = kept[1:]
            yield kept[1][1], keys, fills.tolist()
        else:
            yield from _readers(kept[0][1] if kept else None, keys)
    else:
        yield estimator, keys, [None] * len(keys)


def _chosen(columns: Any, keys: list[Key]) -> list[Key]:
    """The keys that a column transformer means: names, numbers, a slice or a mask."""
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            first = keys.index(columns.start) if columns.start is not None else 0
            last = keys.index(columns.stop) + 1 if columns.stop is not None else len(keys)
            return keys[first:last]
        return keys[columns]
    listed = [columns] if isinstance(columns, str | int) else list(columns)
    if listed and all(isinstance(x, bool | np.bool_) for x in listed):
        return [key for key, is_taken in zip(keys, listed, strict=True) if is_taken]
    return [x if isinstance(x, str) else keys[int(x)] for x in listed]
