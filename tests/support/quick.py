"""Prints the test files nearest to what has changed, for .ci/quick: along imports, from the changed files to tests.

distance 0    the tests that have changed, and those at the mirrored paths of changed modules
distance 1    the tests that import a changed module
distance 2    the tests that import a module that imports a changed one
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.imports import import_graph, imports, module_name

ROOT = Path(__file__).parents[2]
TESTS = "tests"
MAX_FILES = 40
ALWAYS = ("tests/test_layering.py", "tests/test_style.py", "tests/test_language.py")
"""They look at every file."""


def changed_files(root: Path, base: str = "main") -> set[str]:
    """Files that differ from where this branch left `base`, or are new; on `base` those not committed."""
    start = _git(root, "merge-base", "HEAD", base) or ["HEAD"]
    differing = _git(root, "diff", "--name-only", start[0])
    return {*differing, *_git(root, "ls-files", "--others", "--exclude-standard")}


def nearest(root: Path, changed: Iterable[str]) -> dict[str, int]:
    """The distance of each test file that the changed files reach, nearest first."""
    importers, changed = _importers(root), set(changed)
    distances: dict[str, int] = {}
    ring = {node for file in changed for node in _nodes(root, file)}
    distance = 0
    while ring:
        distances |= dict.fromkeys(ring, distance)
        ring = {test for node in ring for test in importers[node]} - distances.keys()
        distance += 1
    tests = {file: d for file, d in distances.items() if _is_test(file)}
    folders = {Path(TESTS, file.removeprefix(f"{TESTS}/")).parent for file in changed}

    def order(test: str) -> tuple[bool, bool, int, str]:
        return tests[test] > 0, Path(test).parent not in folders, tests[test], test

    return {test: tests[test] for test in sorted(tests, key=order)}


def _nodes(root: Path, file: str) -> Iterator[str]:
    """Yield the nodes of the graph of imports at which the search starts for a changed file."""
    path = Path(file)
    if path.parts[:2] == (TESTS, "golden"):
        test = Path(TESTS, *path.parts[2:-1]).with_suffix(".py")
        if (root / test).exists():
            yield test.as_posix()
    elif path.suffix == ".md":
        yield "tests/docs/test_docs.py"
    elif path.suffix == ".py" and (root / file).exists():
        yield _node(root, root / file)
        mirrored = Path(TESTS, path.parent, f"test_{path.name}")
        if path.parts[0] != TESTS and (root / mirrored).exists():
            yield mirrored.as_posix()


def _importers(root: Path) -> defaultdict[str, set[str]]:
    """Module of graphc, `support` module or path of a test -> those that import it."""
    importers = defaultdict(set)
    graph = import_graph(root)
    for name, imported in graph.items():
        for module in imported:
            importers[module].add(name)
    for path in (root / TESTS).rglob("*.py"):
        for _, name in imports(path, root):
            found = _known(name, graph.keys(), root)
            if found is not None:
                importers[found].add(_node(root, path))
    return importers


def _known(name: str, modules: Iterable[str], root: Path) -> str | None:
    """The node of an imported name, which may be one inside a module; None for other packages."""
    package, _, inside = name.partition(".")
    if package == "support":
        stem = inside.partition(".")[0]
        return f"support.{stem}" if (root / TESTS / "support" / f"{stem}.py").exists() else None
    if package != "graphc":
        return None
    while inside and inside not in modules:
        inside = inside.rpartition(".")[0]
    return inside


def _node(root: Path, path: Path) -> str:
    inside = path.relative_to(root)
    if inside.parts[:2] == (TESTS, "support"):
        return f"support.{path.stem}"
    return inside.as_posix() if inside.parts[0] == TESTS else module_name(path, root)


def _is_test(node: str) -> bool:
    return node.startswith(f"{TESTS}/") and Path(node).name.startswith("test_")


def _git(root: Path, *words: str) -> list[str]:
    """The lines that git prints; none if it refuses, as outside of a clone."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *words], cwd=root, env=environ, capture_output=True, text=True, check=False
    )
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else []


def main() -> None:
    """Print the files on stdout, and what they are on stderr."""
    changed = changed_files(ROOT)
    tests = nearest(ROOT, changed)
    chosen = [test for test in tests if test not in ALWAYS][:MAX_FILES]
    print(f"{len(changed)} changed files reach {len(tests)} test files", file=sys.stderr)
    for test in chosen:
        print(f"  distance {tests[test]}: {test}", file=sys.stderr)
    print(*ALWAYS, *chosen, sep="\n")


if __name__ == "__main__":
    main()
