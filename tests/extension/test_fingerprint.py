"""Equal definitions have equal digests in any process; whatever may change a result changes the digest."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.extension.code_names import imports_of, reads_of
from graphc.extension.fingerprint import UnknownFingerprintError, fingerprint
from graphc.graph_ir.rewriting.pattern import Capture, make_instead, node, recipe
from support.process import run_python

MODULE = """
import functools
import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

SCALE = 2.0
TABLE = {"a": (1, 2.5), "b": [np.float32(3)]}
WEIGHTS = np.arange(4.0)
WORDS = frozenset({"one", "two", "three", "four"})

class Mode(Enum):
    FAST = 1

@dataclass(frozen=True)
class Setting:
    name: str = "x"
    mode: Mode = Mode.FAST

class Base:
    def scaled(self, x):
        return x * SCALE

class Own(Base):
    def scaled(self, x):
        return super().scaled(x) + len(TABLE)

def deepest(x):
    return math.sqrt(x) * SCALE

def deeper(x, *, bias=1.0):
    return deepest(x) + bias

def factory(factor):
    def inner(x):
        return x * factor + inner.__kwdefaults__.get("k", 0) if x in WORDS else x
    return inner

closure = factory(3)
own = Own()
setting = Setting()

@functools.cache
def top(x, n=3):
    if n:
        return top(x, n - 1)
    return [deeper(y) for y in np.where(WEIGHTS > x, WEIGHTS, own.scaled(x))], closure(x), setting, TABLE
"""

CHANGES = {
    "a constant two calls away": ("math.sqrt(x) * SCALE", "math.sqrt(x) * SCALE * 1.0"),
    "a global constant": ("SCALE = 2.0", "SCALE = 3.0"),
    "a type of number": ("SCALE = 2.0", "SCALE = 2"),
    "a closure": ("factory(3)", "factory(4)"),
    "a default": ("n=3", "n=4"),
    "a keyword default": ("bias=1.0", "bias=1.5"),
    "another function": ("math.sqrt(x)", "math.exp(x)"),
    "a method of a base": ("x * SCALE\n\nclass Own", "x / SCALE\n\nclass Own"),
    "a field of an object": ('name: str = "x"', 'name: str = "y"'),
    "a value in a container": ("np.float32(3)", "np.float32(4)"),
    "an array": ("np.arange(4.0)", "np.arange(4.0) + 1"),
    "the members of a set": ('"three"', '"five"'),
    "a member of an enumeration": ("FAST = 1", "FAST = 2"),
    "a comprehension": ("[deeper(y) for", "[deeper(-y) for"),
}


def digest_in_a_process(source: str, folder: Path, seed: str = "0") -> str:
    (folder / "code.py").unlink(missing_ok=True)
    (folder / "definitions.py").write_text(source)
    imports = "import definitions; from graphc.extension.fingerprint import fingerprint"
    program = f"{imports}; print(fingerprint(definitions.top))"
    env = {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_python("-c", f"import sys; sys.path.insert(0, '.'); {program}", cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def digest_of(source: str, monkeypatch: pytest.MonkeyPatch) -> str:
    module = ModuleType("definitions")
    monkeypatch.setitem(sys.modules, "definitions", module)
    exec(source, vars(module))
    return fingerprint(module.top)


def test_equal_definitions_have_equal_digests_in_two_processes(tmp_path: Path) -> None:
    moved = f"# a comment\n\n\n{MODULE}"
    digests = {digest_in_a_process(MODULE, tmp_path, seed) for seed in ("1", "2")}
    assert digests == {digest_in_a_process(moved, tmp_path)}


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_may_change_a_result_changes_the_digest(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = CHANGES[change]
    assert MODULE.count(old) == 1
    digests = [digest_of(text, monkeypatch) for text in (MODULE, MODULE.replace(old, new), MODULE)]
    assert digests[0] == digests[2] != digests[1]


def test_values_and_their_types() -> None:
    values: list[Any] = [
        None, True, 1, 1.0, -0.0, 0.0, "1", b"1", (1,), [1], {1}, frozenset((1, 2)), {1: 2}, {2: 1}, 1j, ...,
        np.float32(1), np.int64(1), np.array([1]), np.array([1.0]), np.array([[1]]), np.dtype("f4"), F32, int, float,
        math.sqrt, math.exp, np.exp, np.add, len, "x".join, "y".join, functools.partial(max, 1),
        functools.partial(max, 2), range(3), slice(1, 2), re.compile("a"), re.compile("a", re.DOTALL), str | None,
        math, np, property(len), staticmethod(len), classmethod(len), dict.fromkeys, fingerprint,
        UnknownFingerprintError,
    ]  # fmt: skip
    digests = [fingerprint(value) for value in values]
    assert len(set(digests)) == len(values)
    assert digests == [fingerprint(value) for value in values]
    assert fingerprint(float("nan")) == fingerprint(
        -float("inf") - -float("inf") if False else float("nan")
    )


def test_a_rule_of_the_package_is_known_by_what_it_holds() -> None:
    """A closure made by graphc: its name alone would not tell one pattern from another."""
    x = Capture("x")
    rules = [
        recipe(node(name, x), make_instead(to)) for name in ("exp", "log") for to in ("relu", "neg")
    ]
    assert len({fingerprint(rule) for rule in rules}) == 4


def _reads_the_clock() -> float:
    return time.time()


def _calls_it() -> float:
    return _reads_the_clock() + 1


def _imports() -> Any:
    import os

    return os.environ["X"]


def _imports_what_is_pure() -> Any:
    from math import sqrt

    return sqrt(2)


_LOCK = threading.Lock()
_SPACE = SimpleNamespace(x=1)
_ELSEWHERE = "which may give another result in another process"

UNKNOWN: dict[str, tuple[Callable[..., Any], str]] = {
    "the clock": (_calls_it, f"'_reads_the_clock' uses time.time, {_ELSEWHERE}"),
    "a file": (lambda: open("x"), f"'<lambda>' uses io.open, {_ELSEWHERE}"),  # noqa: SIM115
    "random numbers": (lambda: np.random.rand(), f"'<lambda>' uses numpy.random, {_ELSEWHERE}"),
    "an array from a file": (lambda: np.load("x"), f"'<lambda>' uses numpy.load, {_ELSEWHERE}"),
    "a late import": (_imports, "'_imports' uses an import of 'os' while it runs; import it at the top of the file"),
    "a module": (lambda: pytest, "'<lambda>' uses the module 'pytest' as a value"),
    "a lock": (lambda: _LOCK, f"'<lambda>' uses an object of _thread.lock, {_ELSEWHERE}"),
    "an object of unknown type": (
        lambda: _SPACE, "'<lambda>' uses an object of types.SimpleNamespace, which is not written in Python",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_may_differ_in_another_process_has_no_digest(case: str) -> None:
    function, message = UNKNOWN[case]
    with pytest.raises(UnknownFingerprintError) as caught:
        fingerprint(function)
    assert str(caught.value) == message


def test_a_pure_module_may_be_imported_late() -> None:
    assert fingerprint(_imports_what_is_pure) == fingerprint(_imports_what_is_pure)


def test_a_changed_value_of_the_present_process_is_noticed() -> None:
    table = {"factor": 1}
    function = lambda x: x * table["factor"]  # noqa: E731
    before = fingerprint(function)
    table["factor"] = 2
    assert fingerprint(function) != before


@dataclasses.dataclass
class _Node:
    other: _Node | None = None
    number: int = 0


def test_circles_end() -> None:
    one, two = _Node(number=1), _Node(number=2)
    one.other, two.other = two, one
    assert fingerprint(one) == fingerprint(one) != fingerprint(two)
    items: list[Any] = []
    items.append(items)
    assert fingerprint(items) == fingerprint(items)


def test_names_that_code_reads() -> None:
    space: dict[str, Any] = {}
    exec(
        textwrap.dedent(
            """
            def f(x):
                import os.path
                from . import y
                return np.linalg.norm(x).sum() + [g(i) for i in x][0], (lambda: HELP.a)
            """
        ),
        space,
    )
    code = space["f"].__code__
    assert reads_of(code) == (("HELP", "a"), ("g",), ("np", "linalg", "norm"))
    assert imports_of(code) == (".", "os.path")
