"""House rules a linter does not know: sizes of files and functions, names, and a test file for every part."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.process import ROOT

MAX_LINES = 450
MAX_FUNCTION_LINES = 60
VAGUE_NAMES = ("utils", "util", "helpers", "misc", "common")
NOT_OURS = ("build", "dist", "venv")

# Each module here has its test at tests/<same folder>/test_<same name>.py.
TESTED_ONE_BY_ONE = (
    "tensor_ir/passes",
    "graph_ir/ops",
    "graph_ir/passes",
    "graph_ir/templates",
    "codegen/math",
)

TESTS_ALONE = ("measurements", "support")
"""Folders of tests/ that no folder of the sources mirrors."""

# Or it is a key of a table in this test.
TESTED_BY_TABLE = {"codegen/math": "tests/codegen/math/test_unary_functions.py"}


def long_pieces(root: Path) -> list[str]:
    """Files and functions over the hard limits."""
    found = []
    for path in _sources(root):
        file, source = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        lines = len(source.splitlines())
        if lines > MAX_LINES:
            found.append(f"{file}: {lines} lines, at most {MAX_LINES}")
        for node in _statements(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    found.append(
                        f"{file}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"
                    )
    return found


def vague_names(root: Path) -> list[str]:
    """Modules and folders whose name does not say what is in them."""
    sources = (path.relative_to(root) for path in _sources(root))
    return [
        f"{path.as_posix()}: a name that says what is in it, instead of '{part}'"
        for path in sources
        for part in path.with_suffix("").parts
        if part in VAGUE_NAMES
    ]


def without_remedy(root: Path) -> list[str]:
    """Refusals that do not say what to do about them, except for those that only add to another error who is meant."""
    found = []
    for path in _sources(root):
        source = path.read_text(encoding="utf-8")
        if path.relative_to(root).parts[0] == "tests" or "UnsupportedError(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "UnsupportedError":
                texts = [x.value for x in ast.walk(node.args[0]) if isinstance(x, ast.Constant)]
                said = "".join(x for x in texts if isinstance(x, str))
                if len(node.args) == 1 and "; " not in said and len(said) > len("node '' (): "):
                    found.append(f"{path.relative_to(root).as_posix()}:{node.lineno}: {said}")
    return found


_RULE = re.compile(
    r"; |\b(must|needs?|takes?|expected|give)\b"
)  # words that say what would be right
_TOLD = ("error", "message", "mixed", "refusal", "rule", "text")  # sentences that others made


def without_rule(root: Path) -> list[str]:
    """Errors of users that state a fact, but neither a rule nor a remedy: those around another sentence aside."""
    found = []
    for path in _sources(root):
        file, source = path.relative_to(root), path.read_text(encoding="utf-8")
        if file.parts[0] in ("tests", "tools") or "UserError(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "UserError":
                said = node.args[0]
                last = said.values[-1] if isinstance(said, ast.JoinedStr) else said
                last = last.value if isinstance(last, ast.FormattedValue) else last
                texts = "".join(str(x.value) for x in ast.walk(said) if isinstance(x, ast.Constant))
                name = ast.unparse(last).removesuffix(".msg")  # constants are named in capitals
                if not _RULE.search(texts) and name not in _TOLD and not name.isupper():
                    found.append(f"{file.as_posix()}:{node.lineno}: {texts}")
    return found


def untested(root: Path) -> list[str]:
    """Passes, ops, templates and kernels without a test file at the mirrored path, or an entry in a table."""
    found = []
    for folder in TESTED_ONE_BY_ONE:
        listed = _keys(root / TESTED_BY_TABLE[folder]) if folder in TESTED_BY_TABLE else set()
        for path in sorted((root / folder).glob("*.py")):
            test = Path("tests", folder, f"test_{path.name}")
            if path.name.startswith("_") or path.stem in listed or (root / test).exists():
                continue
            found.append(f"{folder}/{path.name}: no test file {test.as_posix()}")
    return found


def misplaced(root: Path) -> list[str]:
    """Test files whose folder mirrors no folder of the sources, or that are named after a module of another."""
    modules = defaultdict(set)
    for path in _sources(root):
        inside = path.relative_to(root)
        if inside.parts[0] != "tests":
            module = inside.parent if path.name == "__init__.py" else inside.with_suffix("")
            modules[module.name].add(module.parent)
    found = []
    for path in sorted((root / "tests").glob("*/**/test_*.py")):
        test = path.relative_to(root / "tests")
        named = modules[test.stem.removeprefix("test_")]
        if not (root / test.parent).is_dir() and test.parts[0] not in TESTS_ALONE:
            found.append(f"tests/{test.as_posix()}: there is no folder {test.parent.as_posix()}")
        elif len(named) == 1 and test.parent not in named:
            (other,) = named
            found.append(
                f"tests/{test.as_posix()}: the module of this name is in {other.as_posix()}"
            )
    return found


def _keys(path: Path) -> set[Any]:
    """The keys of the tables that a test defines; none of a file that does not exist."""
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []
    tables = [x.value for x in body if isinstance(x, ast.Assign) and isinstance(x.value, ast.Dict)]
    keys = [key for table in tables for key in table.keys]
    return {key.value for key in keys if isinstance(key, ast.Constant)}


def raw_prints(root: Path) -> list[str]:
    """Calls of `print` to stdout in commands: `terminal.say` keeps names in models from steering the terminal."""
    found = []
    for path in sorted((root / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "print":
                continue
            if not node.keywords and path.name != "terminal.py":
                found.append(f"cli/{path.name}:{node.lineno}: print, instead of terminal.say")
    return found


def early_returns(root: Path) -> list[str]:
    """Returns in tests: a test that ends early has passed without an assertion; what is not a case is not a
    parameter."""
    found = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        for test in _statements(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                file = path.relative_to(root).as_posix()
                found += [f"{file}:{line}: {test.name} returns" for line in _returns(test)]
    return found


def _returns(function: ast.FunctionDef) -> Iterator[int]:
    """Lines where a function returns, those of functions inside it aside."""
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.Return):
            yield node.lineno
        elif not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every statement of a module, without its expressions, which are nine tenths of the nodes."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending.extend(getattr(node, block, ()))


def own_defaults(root: Path) -> list[str]:
    """`op.attrs.get(...)`: a default beside that of the op's schema. What formats call nodes has no schema."""
    found = []
    for path in _sources(root):
        file, lines = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        for number, line in enumerate(lines.splitlines(), 1):
            if not file.startswith("tests/") and "op.attrs.get(" in line:
                found.append(f"{file}:{number}")
    return found


def _sources(root: Path) -> Iterator[Path]:
    for path in sorted(root.glob("**/*.py")):
        parts = path.relative_to(root).parts
        if parts[0] not in NOT_OURS and not any(part.startswith(".") for part in parts):
            yield path


def test_files_and_functions_are_short() -> None:
    assert long_pieces(ROOT) == []


def test_names_say_what_is_inside() -> None:
    assert vague_names(ROOT) == []


def test_every_pass_op_and_kernel_has_its_test_file() -> None:
    assert all((ROOT / folder).is_dir() for folder in TESTED_ONE_BY_ONE)
    assert untested(ROOT) == []


def test_the_tests_mirror_the_sources() -> None:
    assert misplaced(ROOT) == []


def test_misplaced_tests_are_found(tmp_path: Path) -> None:
    names = ("low/a.py", "low/b.py", "high/b.py", "high/part/__init__.py")
    tests = ("test_x", "low/test_a", "low/test_b", "low/test_of_the_room", "high/test_part")
    wrong = ("gone/test_a", "high/test_a", "low/test_part")
    for name in (*names, *(f"tests/{test}.py" for test in tests + wrong)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert misplaced(tmp_path) == [
        "tests/gone/test_a.py: there is no folder gone",
        "tests/high/test_a.py: the module of this name is in low",
        "tests/low/test_part.py: the module of this name is in high",
    ]


def test_defaults_of_attributes_are_in_schemas(tmp_path: Path) -> None:
    assert own_defaults(ROOT) == []
    (tmp_path / "planted.py").write_text("def f(op):\n    return op.attrs.get('axis', 0)\n")
    assert own_defaults(tmp_path) == ["planted.py:2"]


def test_every_refusal_says_what_to_do_about_it() -> None:
    assert without_remedy(ROOT) == []


def test_planted_refusals_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'raise UnsupportedError(f"{who}: things are not supported")\n'
        'raise UnsupportedError("things are not supported", "do without")\n'
        'raise UnsupportedError(f"node {name}: {error}")\n'
    )
    assert without_remedy(tmp_path) == ["a.py:1: : things are not supported"]


def test_every_error_of_users_says_what_would_be_right() -> None:
    assert without_rule(ROOT) == []


def test_planted_facts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'raise UserError(f"{who}: the file is broken")\n'
        'raise UserError(f"{who}: the file is broken; write it again")\n'
        'raise UserError("x must be 1")\n'
        'raise UserError(f"line {n}: {error}")\n'
    )
    assert without_rule(tmp_path) == ["a.py:1: : the file is broken"]


def test_no_test_ends_early() -> None:
    assert early_returns(ROOT) == []


def test_planted_early_returns_are_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        "def helper():\n    return 1\n\n\ndef test_a(x):\n    if x:\n        return\n"
        "    def inner():\n        return 2\n    assert inner()\n"
    )
    assert early_returns(tmp_path) == ["tests/test_x.py:7: test_a returns"]


def test_commands_print_names_as_text() -> None:
    assert raw_prints(ROOT) == []


def test_the_limits_themselves(tmp_path: Path) -> None:
    at_the_limit = "def f():\n" + "    x = 1\n" * (MAX_FUNCTION_LINES - 1)
    (tmp_path / "good.py").write_text(at_the_limit.ljust(600) + "\n" * (MAX_LINES - 60))
    assert long_pieces(tmp_path) == []
    (tmp_path / "long.py").write_text("x = 1\n" * (MAX_LINES + 1))
    (tmp_path / "deep.py").write_text(
        "class A:\n" + "    " + at_the_limit.replace("\n", "\n    ") + "    y = 1\n"
    )
    assert long_pieces(tmp_path) == [
        "deep.py:2: f has 61 lines, at most 60",
        "long.py: 451 lines, at most 450",
    ]


def test_planted_names_and_missing_tests_are_found(tmp_path: Path) -> None:
    for name in (
        "runtime/utils.py",
        "tests/helpers/x.py",
        "graph_ir/ops/softmax.py",
        "graph_ir/ops/_rule.py",
        "codegen/math/sin.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert [line.split(":")[0] for line in vague_names(tmp_path)] == [
        "runtime/utils.py",
        "tests/helpers/x.py",
    ]
    assert untested(tmp_path) == [
        "graph_ir/ops/softmax.py: no test file tests/graph_ir/ops/test_softmax.py",
        "codegen/math/sin.py: no test file tests/codegen/math/test_sin.py",
    ]
    table = tmp_path / TESTED_BY_TABLE["codegen/math"]
    table.parent.mkdir(parents=True)
    table.write_text('FUNCTIONS = {"sin": 0.8}')
    (tmp_path / "tests/graph_ir/ops").mkdir(parents=True)
    (tmp_path / "tests/graph_ir/ops/test_softmax.py").write_text("")
    assert untested(tmp_path) == []
