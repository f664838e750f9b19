"""Fixtures and options of the whole suite; the helpers they offer are in tests/support."""

from __future__ import annotations

import datetime
import gc
import importlib.util
import math
import os
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

if importlib.util.find_spec("graphc") is None:
    pytest.exit("graphc is not installed here; run .ci/setup", returncode=4)

import graphc
from graphc.base.collector import paused_collector
from support import checked_models, isa, tiers
from support.golden import Golden
from support.shared_objects import share_objects

# The same examples in every run: a failure in CI is a failure here.
settings.register_profile(
    "graphc",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],  # how long it takes says how busy the machine is
)
settings.load_profile("graphc")

STARTED = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write the golden files of the tests that run"
    )
    parser.addoption(
        "--isa",
        default=os.environ.get("GRAPHC_TEST_ISA", "native"),
        choices=("native", *isa.LEVELS),
        help="pretend a smaller CPU (also GRAPHC_TEST_ISA)",
    )
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="all cases of every grid, instead of those of a day",
    )
    parser.addoption(
        "--day",
        type=datetime.date.fromisoformat,
        default=datetime.date.today(),
        help="the day whose cases are taken of the tests marked exhaustive, 2026-01-31 for example (default: today)",
    )
    parser.addoption(
        "--seconds",
        type=float,
        default=math.inf,
        help="skip the tests that would start after this time",
    )
    parser.addoption(
        "--check-bounds",
        action="store_true",
        help="every model that is compiled checks its accesses (-X check-bounds), and their number is reported",
    )


def pytest_configure(config: pytest.Config) -> None:
    # As in .ci/check: of the hundreds of processes that tests start, each would compile all of graphc's sources.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # Tests compile what they test, and leave nothing in the cache of whoever runs them.
    os.environ["GRAPHC_CACHE_DIR"] = ""
    os.environ["GRAPHC_VERIFY"] = "1"
    os.environ["GRAPHC_JOBS"] = "1"  # the suite itself takes every CPU
    # NumPy's threads wait in a loop after each matmul, 20 ms of a CPU that another worker could use.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    isa.pretend(config.getoption("--isa"))
    # OpenVINO's telemetry forks, of which JAX warns wherever a test has started it.
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
    share_objects()
    if config.getoption("--check-bounds"):
        checked_models.turn_on()


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Reproducers of planted errors, and files of killed processes, go where pytest's own folders go."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    os.environ["TMPDIR"] = tempfile.tempdir = folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not tiers.takes_all(config):
        day = config.getoption("--day")
        items[:], others = tiers.split(items, lambda names: tiers.of_day(names, day))
        config.hook.pytest_deselected(items=others)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collected tests and the modules they import stay until the end: the collector never searches them.

    It took an eighth of the CPU time of the suite. Garbage of tests is searched less often, because there is little
    of it.
    """
    with paused_collector():
        result = yield
    gc.freeze()
    gc.set_threshold(30_000, 10, 10)
    return result


def pytest_report_header() -> str:
    return f"graphc: {graphc.__version__} from {graphc.__path__[0]}, isa: {isa.level()}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["checked_models"] = checked_models.count()


def pytest_testnodedown(node: Any) -> None:
    checked_models.add(getattr(node, "workeroutput", {}).get("checked_models", 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if count := checked_models.count():
        terminalreporter.write_line(f"{count} modules of checked code")
    if not tiers.takes_all(terminalreporter.config):
        day = terminalreporter.config.getoption("--day")
        terminalreporter.write_line(
            f"of exhaustive tests the cases of one day: --day {day} takes them again, --exhaustive all"
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() - STARTED > item.config.getoption("--seconds"):
        pytest.skip("there is no time left (--seconds)")
    missing = {f for mark in item.iter_markers("isa") for f in mark.args} - isa.features()
    if missing:
        pytest.skip(f"needs {', '.join(sorted(missing))}")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden(text)` compares with tests/golden/<test path>/<test name>.txt."""
    return Golden(request.path, request.node.name, request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> int:
    """A seed that depends on the test's name only; Python's and NumPy's global generators and those of the test's
    module start from it, so that a test draws the same numbers whichever tests ran before it."""
    value = zlib.crc32(request.node.nodeid.encode())
    random.seed(value)
    np.random.seed(value)
    for shared in vars(request.module).values():
        if isinstance(shared, np.random.Generator):
            shared.bit_generator.state = np.random.default_rng(value).bit_generator.state
    return value


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """The generator tests draw their data from."""
    return np.random.default_rng(seed)
