"""Records behave as the standard library's frozen dataclasses, method by method."""

import copy
import dataclasses
import inspect
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import pytest

from graphc.base.records import dataclass

Maker = Callable[..., Any]


def classes(dataclass: Maker) -> list[type]:
    """Classes with every feature the package uses."""

    @dataclass(frozen=True)
    class Empty:
        """No fields."""

    @dataclass(frozen=True)
    class Point:
        """Two fields, one with a default."""

        x: float
        y: float = 2.0

    @dataclass(frozen=True)
    class Derived(Point):
        """A base with fields, a factory, a derived value, fields that are neither shown nor compared."""

        z: list[int] = field(default_factory=list)
        label: str = field(default="", compare=False)
        hidden: int = field(default=7, repr=False)
        fixed: int = field(default=3, init=False)
        made: dict[str, int] = field(default_factory=dict, init=False, compare=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")
            object.__setattr__(self, "fixed", 4)

    @dataclass(frozen=True, eq=False)
    class Identity:
        """Equal to itself only; has an attribute that is not a field."""

        x: int
        shared: ClassVar[list[int]] = []

    @dataclass(frozen=True, repr=False)
    class Own:
        """Methods that the class defines, which are kept."""

        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and abs(self.x) == abs(other.x)

    class Plain(Point):
        """A subclass without the decorator, whose own attributes may be set."""

    return [Empty, Point, Derived, Identity, Own, Plain]


OURS, STANDARD = classes(dataclass), classes(dataclasses.dataclass)
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1.0,), {}),
    ((1.0, 2.0), {}),
    ((), {"x": math.nan}),
    ((1.0, 3.0, [1]), {"label": "a"}),
    ((1.0, 3.0, [1]), {"label": "b", "hidden": 9}),
    ((-1.0,), {}),
    ((1,), {"unknown": 2}),
    ((1, 2, 3, 4, 5, 6, 7), {}),
]


def outcome(act: Callable[[], Any]) -> Any:
    """Return the result of a call, or the type of its exception."""
    try:
        return act()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error)


def described(value: Any) -> Any:
    """All that can be seen of an object of either kind of class."""
    if isinstance(value, type):
        return value
    return (
        repr(value).replace(type(value).__qualname__, ""),
        repr(outcome(lambda: asdict(value))),
        outcome(lambda: hash(value)) if type(value).__name__ != "Identity" else None,
        value == copy.copy(value),
        [outcome(partial(setattr, value, f.name, 0)) for f in fields(value)],
        [outcome(partial(delattr, value, f.name)) for f in fields(value)],
        outcome(lambda: setattr(value, "other", 1)),
        repr(outcome(lambda: replace(value, x=5))).replace(type(value).__qualname__, ""),
    )


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=repr)
@pytest.mark.parametrize("index", range(len(OURS)), ids=[cls.__name__ for cls in OURS])
def test_objects_are_as_the_standard_ones(
    index: int, arguments: tuple[tuple[Any, ...], dict[str, Any]]
) -> None:
    positional, named = arguments
    ours = outcome(lambda: OURS[index](*positional, **named))
    standard = outcome(lambda: STANDARD[index](*positional, **named))
    assert described(ours) == described(standard)


def test_objects_compare_as_the_standard_ones() -> None:
    def table(made: list[type]) -> list[bool]:
        objects = [
            value
            for cls in made
            for positional, named in ARGUMENTS
            if not isinstance(value := outcome(partial(cls, *positional, **named)), type)
        ]
        return [a == b for a in objects for b in objects]

    ours = table(OURS)
    assert ours == table(STANDARD)
    assert any(ours) and not all(ours)


def test_fields_are_those_of_the_standard_ones() -> None:
    def facts(cls: type) -> object:
        found = [(f.name, f.type, f.default, f.init, f.repr, f.compare) for f in fields(cls)]
        return (
            found,
            cls.__dict__.get("__match_args__"),
            hasattr(cls, "z"),
            hasattr(cls, "y"),
            hasattr(cls, "shared"),
        )

    assert [facts(cls) for cls in OURS] == [facts(cls) for cls in STANDARD]


def test_a_default_that_all_objects_would_share_is_refused() -> None:
    for make in (dataclass, dataclasses.dataclass):
        with pytest.raises(ValueError, match="mutable default <class 'list'> for field x"):
            make(frozen=True)(type("Shared", (), {"__annotations__": {"x": list}, "x": []}))


def test_signatures_name_the_fields() -> None:
    for ours, standard in zip(OURS, STANDARD, strict=True):
        assert list(inspect.signature(ours).parameters) == list(
            inspect.signature(standard).parameters
        )


@dataclass(frozen=True)
class Kept:
    """At the top of a module, where pickle finds it."""

    x: int
    y: tuple[int, ...] = ()


def test_pickled_and_copied() -> None:
    value = Kept(1, (2,))
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert {value: 1}[Kept(1, (2,))] == 1


@dataclass(frozen=True, slots=True)
class Slots:
    """A slot for each field but the one that nobody sets."""

    x: int
    y: tuple[int, ...] = ()
    made: dict[str, int] = field(default_factory=dict, init=False, compare=False)
    fixed: int = field(default=3, init=False)


def test_objects_with_slots_have_no_dictionary_and_are_pickled_and_copied() -> None:
    value = Slots(1, (2,))
    assert not hasattr(value, "__dict__")
    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert {value: 1}[Slots(1, (2,))] == 1
    assert repr(value) == "Slots(x=1, y=(2,), made={}, fixed=3)"
    assert replace(value, x=5) == Slots(5, (2,)) and Slots(5) != value
    assert [f.name for f in fields(Slots)] == list(asdict(value))
    assert Slots.__match_args__ == ("x", "y")
    unknown: Any = value
    for name in ("x", "made", "fixed", "other"):
        with pytest.raises(FrozenInstanceError):
            setattr(unknown, name, 0)


def test_nothing_of_a_frozen_object_is_set_or_deleted() -> None:
    value: Any = Kept(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        value.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del value.x


def test_what_is_not_frozen_is_the_standard_librarys() -> None:
    @dataclass
    class Open:
        x: int

    value = Open(1)
    value.x = 2
    assert value == Open(2)


def test_fields_left_out_of_the_hash_are_compared_all_the_same() -> None:
    @dataclass(frozen=True)
    class Labeled:
        name: str
        sizes: dict[str, int] = field(default_factory=dict, hash=False)

    one, other = Labeled("a", {"x": 1}), Labeled("a", {"x": 2})
    assert hash(one) == hash(other) and one != other
    assert one == Labeled("a", {"x": 1})
