"""The number of threads to run with, and the pools that models share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.runtime.executor import CompiledModel
from graphc.runtime.threadpool import available_cpus, cgroup_cpus, resolve_threads, shared_pool
from support.native import add_artifact, support_code


@pytest.mark.parametrize(
    ("threads", "environ", "expected"),
    [
        (3, {"GRAPHC_NUM_THREADS": "5", "OMP_NUM_THREADS": "6"}, 3),
        (None, {"GRAPHC_NUM_THREADS": "5", "OMP_NUM_THREADS": "6"}, 5),
        (None, {"GRAPHC_NUM_THREADS": " 5 "}, 5),
        (None, {"GRAPHC_NUM_THREADS": "", "OMP_NUM_THREADS": "6"}, 6),
        (None, {"OMP_NUM_THREADS": "6,2"}, 6),
        (None, {"OMP_NUM_THREADS": "many"}, 12),
        (None, {"OMP_NUM_THREADS": "0"}, 12),
        (None, {}, 12),
    ],
)
def test_precedence(threads: int | None, environ: dict[str, str], expected: int) -> None:
    assert resolve_threads(threads, environ, available=12) == expected


def test_a_huge_machine_is_capped() -> None:
    assert resolve_threads(None, {}, available=4096) == 1024


@pytest.mark.parametrize("threads", [0, -1, 1025, 2.0, True, "2"])
def test_bad_argument(threads: object) -> None:
    with pytest.raises(UserError) as caught:
        resolve_threads(threads, {}, 1)  # type: ignore[arg-type]
    assert str(caught.value) == f"threads must be an integer from 1 to 1024, got {threads!r}"


@pytest.mark.parametrize(("text", "shown"), [("x", "'x'"), ("-2", "'-2'"), ("0", "0"), ("9999", "9999")])  # fmt: skip
def test_bad_variable(text: str, shown: str) -> None:
    with pytest.raises(UserError) as caught:
        resolve_threads(None, {"GRAPHC_NUM_THREADS": text}, 1)
    assert str(caught.value) == (
        f"GRAPHC_NUM_THREADS must be an integer from 1 to 1024, got {shown}"
    )


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/a/b/cpu.max": "400000 100000\n",
            },
            2.0,
        ),
        (
            {
                "proc/self/cgroup": "3:memory:/x\n2:cpu,cpuacct:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            0.5,
        ),
        (
            {
                "proc/self/cgroup": "2:cpu:/x\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000\n",
            },
            None,
        ),
        ({"proc/self/cgroup": "garbage\n:::\n", "sys/fs/cgroup/cpu.max": "1 0\n"}, None),
    ],
)
def test_cgroup_quota(tmp_path: Path, files: dict[str, str], expected: float | None) -> None:
    write(tmp_path, files)
    assert cgroup_cpus(tmp_path) == expected


def test_available_cpus() -> None:
    assert available_cpus() >= 1


@pytest.mark.skipif(not hasattr(__import__("os"), "sched_setaffinity"), reason="no affinity")
def test_the_affinity_mask_counts() -> None:
    program = (
        "import os\n"
        "os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from graphc.runtime.threadpool import available_cpus\n"
        "print(available_cpus())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


def test_pools_are_shared() -> None:
    pool = shared_pool(2, support_code())
    assert pool is not None
    assert shared_pool(2, support_code()) is pool
    assert shared_pool(3, support_code()) is not pool
    assert shared_pool(1, support_code()) is None
    assert shared_pool(2, b"") is None


def test_models_of_one_process_share_a_pool() -> None:
    x = np.ones((8, 13), np.float32)
    first, second = CompiledModel(add_artifact(), 2), CompiledModel(add_artifact(), 2)
    assert first.threads == second.threads == 2
    first.close()
    assert np.array_equal(second(x, x), 4 * x)


def test_a_process_with_spinning_workers_ends_cleanly() -> None:
    program = (
        "import numpy as np\n"
        "from support.native import add_artifact\n"
        "from graphc.runtime.executor import CompiledModel\n"
        "m = CompiledModel(add_artifact(), 4)\n"
        "x = np.ones((8, 13), np.float32)\n"
        "for _ in range(100): m(x, x)\n"
    )
    tests = str(Path(__file__).parents[1])
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.append({tests!r})\n" + program],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
