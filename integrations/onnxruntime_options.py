"""Options of sessions and runs in the form of ONNX Runtime: few have a meaning, all can be set and read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from inspect import get_annotations
from typing import Any

from ..base.errors import UserError


class GraphOptimizationLevel(IntEnum):
    """Accepted and ignored: graphc always optimizes."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Accepted and ignored."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Accepted and ignored."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class InvalidArgument(UserError, ValueError, RuntimeError):
    """The inputs or names of a run are wrong. Scripts catch what ONNX Runtime raises by its two other bases."""


class _Options:
    """Attributes that scripts set and read, and entries by key; others than those of ONNX Runtime are refused."""

    logid: str = ""
    log_severity_level: int = -1
    log_verbosity_level: int = 0

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_entries" and not any(
            name in get_annotations(one) for one in type(self).__mro__
        ):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        super().__setattr__(name, value)

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise InvalidArgument(f"{type(self).__name__}: there is no entry '{key}'; add it first")
        return self._entries[key]


class RunOptions(_Options):
    """Options of a run: with `terminate` it is refused; all others are ignored."""

    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    training_mode: bool = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry."""
        return self._entry(key)


class SessionOptions(_Options):
    """Options of a session. `intra_op_num_threads`, fixed dimensions and profiling have a meaning; all others are
    ignored."""

    dimensions: dict[str, int]
    denotations: dict[str, int]
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    execution_mode: ExecutionMode = ExecutionMode.ORT_SEQUENTIAL
    execution_order: ExecutionOrder = ExecutionOrder.DEFAULT
    graph_optimization_level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_ALL
    inter_op_num_threads: int = 0
    intra_op_num_threads: int = 0
    optimized_model_filepath: str = ""
    profile_file_prefix: str = "onnxruntime_profile_"
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True

    def __init__(self) -> None:
        super().__init__()
        self.dimensions = {}
        self.denotations = {}

    def add_free_dimension_override_by_name(self, name: str, value: int) -> None:
        """Fix a dynamic dimension by its name in the model."""
        self.dimensions[name] = value

    def add_free_dimension_override_by_denotation(self, denotation: str, value: int) -> None:
        """Fix the dynamic dimensions with a denotation in the model, such as `DATA_BATCH`."""
        self.denotations[denotation] = value

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry."""
        return self._entry(key)

    def add_provider(self, name: str, options: Any = None) -> None:
        """Ignore a provider."""

    def add_provider_for_devices(self, devices: Sequence[Any], options: Any = None) -> None:
        """Ignore providers."""

    def has_providers(self) -> bool:
        """Return False: providers are ignored."""
        return False


def check_not_ended(options: RunOptions | None) -> None:
    """Raise InvalidArgument where another thread has ended the runs with these options."""
    if options is not None and options.terminate:
        raise InvalidArgument("RunOptions: terminate must be False for a run, got True")
