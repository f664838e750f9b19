"""IREE as a peer of deployed models: compiled ahead of time for this CPU, and mapped by processes.

    python -m graphc.bench.iree_modules m.onnx m.vmfb

Needs the packages iree-base-compiler[onnx] and iree-base-runtime.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np


def is_installed() -> bool:
    """Return whether both packages of IREE are here."""
    return find_spec("iree") is not None and find_spec("iree.compiler") is not None


def module_of(path: str | Path) -> Path:
    """Return the module of an ONNX file, beside it; compile it in another process if there is none."""
    found = Path(path).with_suffix(".vmfb")
    if not found.exists():
        words = [sys.executable, "-m", "graphc.bench.iree_modules", str(path), str(found)]
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return found


class IreeModule:
    """A loaded module. `threads`: 0 for the default of IREE."""

    def __init__(self, path: Path, threads: int) -> None:
        runtime = import_module("iree.runtime")
        if threads > 1:
            runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        config = runtime.Config("local-sync" if threads == 1 else "local-task")
        module = runtime.VmModule.mmap(config.vm_instance, str(path))
        context = runtime.SystemContext(config=config)
        context.add_vm_module(module)
        names = [name for name in module.function_names if name[:2] != "__" and "$" not in name]
        self._function = context.modules[module.name][names[0]]
        self._runtime, self._device = runtime, config.device

    def bound(self, arrays: Mapping[str, Any]) -> Any:
        """Return a function without arguments that runs the module on these inputs."""
        device: Any = self._device
        given = [self._runtime.asdevicearray(device, np.asarray(x)) for x in arrays.values()]
        return lambda: self._function(*given)


def results(found: Any) -> list[np.ndarray]:
    """Return the outputs of a run as arrays."""
    several = found if isinstance(found, tuple | list) else (found,)
    return [np.asarray(one.to_host()) for one in several]


def main() -> None:
    """Compile an ONNX file to a module."""
    model, module = sys.argv[1:]
    importer = import_module("iree.compiler.tools.import_onnx.__main__")
    text = str(Path(module).with_suffix(".mlir"))
    importer.main(importer.parse_arguments([model, "-o", text]))
    import_module("iree.compiler").compile_file(
        text, input_type="onnx", target_backends=["llvm-cpu"], output_file=module,
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )  # fmt: skip
    Path(text).unlink()


if __name__ == "__main__":
    main()
