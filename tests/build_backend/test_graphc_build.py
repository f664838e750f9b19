"""The wheel, the editable wheel and what pip makes of them, in a virtual environment of their own.

One copy of the checkout is built once each way without isolation; nothing is fetched.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from support.process import PATIENCE, ROOT

NOT_COPIED = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info", "golden")
NOT_SHIPPED = ("tests", "docs", "examples")
BUILD = "import sys, graphc_build; print(getattr(graphc_build, sys.argv[1])(sys.argv[2]))"


def _setuptools() -> int:
    try:
        return int(version("setuptools").split(".")[0])
    except PackageNotFoundError:
        return 0


pytestmark = pytest.mark.skipif(
    _setuptools() < 77, reason="building without isolation needs setuptools 77 here"
)


def _run(*words: str | Path, cwd: Path) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHONPATH", "PIP_"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**env, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with one package more, and tests that look like one."""
    copy = tmp_path_factory.mktemp("checkout") / "any name.2"
    shutil.copytree(ROOT, copy, ignore=NOT_COPIED)
    for folder in ("frontend/planted", *NOT_SHIPPED):
        (copy / folder).mkdir(parents=True, exist_ok=True)
        (copy / folder / "__init__.py").write_text("planted = 1\n")
    (copy / "frontend/planted/rules.lark").write_text("start:\n")
    return copy


def _build(checkout: Path, hook: str, folder: Path) -> Path:
    backend = f"import sys; sys.path.insert(0, {str(checkout / 'build_backend')!r})\n{BUILD}"
    name = _run(sys.executable, "-c", backend, hook, folder, cwd=checkout).splitlines()[-1]
    return folder / name


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of that copy."""
    return _build(checkout, "build_wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def editable_wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The editable wheel of that copy."""
    return _build(checkout, "build_editable", tmp_path_factory.mktemp("editable"))


def test_the_wheel_holds_every_package_and_nothing_else(checkout: Path, wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {
        f"graphc/{path.relative_to(checkout).as_posix()}"
        for path in checkout.glob("**/*.py")
        if path.relative_to(checkout).parts[0] not in (*NOT_SHIPPED, "build_backend", "setup.py")
    }
    assert {name for name in names if name.endswith(".py")} == {*modules, "graphc_gc_main.py"}
    assert {"graphc/py.typed", "graphc/frontend/planted/rules.lark"} <= names
    assert {name.split("/")[0] for name in names} == {
        "graphc",
        "graphc-0.1.0.dist-info",
        "graphc_gc_main.pth",
        "graphc_gc_main.py",
    }


@pytest.mark.parametrize("kind", ["wheel", "editable_wheel"])
def test_record_names_every_file_with_its_hash(kind: str, request: pytest.FixtureRequest) -> None:
    with zipfile.ZipFile(request.getfixturevalue(kind)) as archive:
        assert archive.testzip() is None
        record = "graphc-0.1.0.dist-info/RECORD"
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert sorted(row[0] for row in rows) == sorted(archive.namelist())
        for name, digest, size in rows:
            data = archive.read(name)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            if name != record:
                assert (digest, size) == (f"sha256={hashed}", str(len(data)))


def test_building_leaves_nothing_in_the_checkout(
    checkout: Path, wheel: Path, editable_wheel: Path
) -> None:
    assert not (checkout / "build").exists()
    assert not list(checkout.glob("*.egg-info"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["wheel", "editable_wheel"])
def test_installed_it_runs_and_goes_away(
    kind: str, checkout: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(kind)
    home = tmp_path / "venv"
    venv.create(home)
    python, site = home / "bin" / "python", next(home.glob("lib/python*/site-packages"))
    # The libraries come from here; the .pth files of this environment are not read from there.
    (site / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    before = sorted(path.name for path in site.iterdir())
    pip = (sys.executable, "-m", "pip", "--python", python, "--quiet")
    _run(*pip, "install", "--no-deps", file, cwd=tmp_path)
    expected = f"graphc {version('graphc')}\n"
    for words in ("-m gc", "-X dev -W error -Im gc", "-mgc", "-m graphc"):
        assert _run(python, *words.split(), "--version", cwd=tmp_path) == expected
    assert _run(home / "bin" / "graphc", "--version", cwd=tmp_path) == expected
    where = "import graphc, gc; gc.collect(); print(graphc.__path__[0])"
    home_of_code = checkout if kind == "editable_wheel" else site / "graphc"
    assert _run(python, "-c", where, cwd=tmp_path).strip() == str(home_of_code)
    _run(*pip, "uninstall", "--yes", "graphc", cwd=tmp_path)
    assert sorted(path.name for path in site.iterdir() if path.name != "__pycache__") == before
