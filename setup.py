"""The two things pyproject.toml cannot say: which folders are packages, and where to build.

The repository root is the package `graphc`, so the folder `frontend/onnx` is `graphc.frontend.onnx`.
"""

import atexit
import shutil
import tempfile

from setuptools import find_packages, setup

NOT_SHIPPED = ("tests", "docs", "examples", "build", "build_backend")

# A build folder in the checkout would be inside the package, and what it keeps of deleted modules would be shipped.
scratch = tempfile.mkdtemp(prefix="graphc-build-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)

folders = find_packages(
    exclude=[pattern for name in NOT_SHIPPED for pattern in (name, f"{name}.*")]
)
setup(
    script_name="setup.py",  # which is therefore not a module of the package
    packages=["graphc", *(f"graphc.{folder}" for folder in folders)],
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
)
