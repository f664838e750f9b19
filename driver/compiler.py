"""The driver: a model to a `CompiledModel`. One path: request, cache, stages, artifact."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..base.collector import paused_collector
from ..base.memory_limit import parse_memory
from ..base.options import CompileOptions, verify_requested
from ..base.records import dataclass
from ..codegen.host import target_for
from ..extension.kernels import UserKernel, check_lowerings
from ..graph_ir.ir.schedule import parse_schedule
from ..graph_ir.nest.script import Operation
from ..runtime.artifact import Artifact
from ..runtime.executor import CompiledModel
from ..runtime.threadpool import resolve_threads
from ..targets.isa import Target
from .cache_key import cache_key, file_key, status_key
from .compile_cache import CompileCache, default_cache
from .extensions import loops_are_extended, user_code
from .phases import OnPhase, Phases
from .reproducer import reproducible
from .request import CompileRequest, Model, resolve_jobs
from .schedule_functions import with_functions
from .stages import Compilation, run_stages
from .tuning import tuned_schedules


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a request: an artifact, compiled or `from_cache`, and how long that took.

    `not_cached`: why the whole model is not kept in the cache, if something about it forbids that.
    """

    request: CompileRequest
    artifact: Artifact
    from_cache: bool
    phases: Phases
    not_cached: str = ""


def compile(
    model: Model,
    target: str | Target = "native",
    threads: int | None = None,
    inputs: Mapping[str, str] | None = None,
    *,
    disabled: Iterable[str] = (),
    dump_dir: str | os.PathLike[str] | None = None,
    tuning: str | os.PathLike[str] | None = None,
    schedules: Mapping[str, str | Operation] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, str] | None = None,
    cache: bool = True,
    jobs: int | None = None,
    optimized: bool = False,
    max_memory: str | None = None,
    precision: str = "f32",
    activations: str = "exact",
    alias: Mapping[str, str] | str | None = None,
    lowerings: Mapping[str, UserKernel] | None = None,
    on_phase: OnPhase | None = None,
) -> CompiledModel:
    """Compile a model to native code and load it.

    Args:
        model: A path, the bytes of a file, an `onnx.ModelProto`, a `torch.export.ExportedProgram`, a
            `jax.export.Exported` or a `Graph`.
        target: Instruction set: `native` (that of this CPU) or another value of `--target`.
        threads: Threads per call. None: `GRAPHC_NUM_THREADS`, `OMP_NUM_THREADS` or the CPUs this process may use.
        inputs: Shapes of dynamic inputs: `{"x": "f32[8,13]"}`, or a range, `"f32[N=1..64,13]"`.
        disabled: Names of optimizations to turn off (`base.options.SWITCHES`).
        dump_dir: Folder for the text of every stage.
        tuning: File of measured schedules. None: the one that `graphc tune` writes, if it exists.
        schedules: Schedules by op, whole or a few parameters: `{"fc1": "mr=8 nv=3 kc=256"}`; or functions that
            transform the nest they are called with (`graph_ir.nest.script.Script`).
        constants: Arrays of constants that the file omits, by name.
        attrs: Attributes that the file omits: `{"node.axis": "1"}`.
        cache: Whether to use the compile cache.
        jobs: Processes that compile kernels. None: `GRAPHC_JOBS`, or one per CPU.
        optimized: The model is a graph as printed after all passes; run none.
        max_memory: Limit on the memory of a run, such as "16G". None: what this process may use.
        precision: Compute dtype of matmuls and convolutions of an f32 model: `f32`, `bf16`, `f16`, `int8` or `int4`.
        activations: Activations multiplied by packed weights: `exact`, or `q8`, rounded to 8 bits in groups of 32.
        alias: Outputs that share the memory of an input, `{"present": "past"}`, so that a cache grows in place: the
            input is the filled part of a larger array. "auto" finds all such outputs.
        lowerings: Kernels of `graphc.kernel` for this compilation only, by the name of an op in the model or of its
            kind: `{"softmax": kernel}`. One whose `when` refuses an op is not called for it.
        on_phase: Called with the name of a phase, the steps done and the steps in all, for progress.

    Raises:
        UserError: The model or an argument is invalid.
        UnsupportedError: The model uses something that is not supported.
    """
    request = request_of(
        model, target, threads, inputs, disabled=disabled, dump_dir=dump_dir, tuning=tuning, schedules=schedules,
        constants=constants, attrs=attrs, cache=cache, jobs=jobs, optimized=optimized, max_memory=max_memory,
        precision=precision, activations=activations, alias=alias, lowerings=lowerings,
    )  # fmt: skip
    return CompiledModel(compile_request(request, on_phase).artifact, request.options.threads)


def request_of(
    model: Model,
    target: str | Target = "native",
    threads: int | None = None,
    inputs: Mapping[str, str] | None = None,
    *,
    disabled: Iterable[str] = (),
    dump_dir: str | os.PathLike[str] | None = None,
    tuning: str | os.PathLike[str] | None = None,
    schedules: Mapping[str, str | Operation] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, str] | None = None,
    cache: bool = True,
    jobs: int | None = None,
    optimized: bool = False,
    max_memory: str | None = None,
    precision: str = "f32",
    activations: str = "exact",
    alias: Mapping[str, str] | str | None = None,
    lowerings: Mapping[str, UserKernel] | None = None,
) -> CompileRequest:
    """Return the request that the arguments of `compile` make. May raise UserError."""
    resolved = target_for(target) if isinstance(target, str) else target
    memory = parse_memory(max_memory) if max_memory else None
    options = CompileOptions(
        resolve_threads(threads), frozenset(disabled), Path(dump_dir) if dump_dir else None, verify_requested(),
        max_memory=memory, precision=precision, activations=activations,
    )  # fmt: skip
    texts = {name: parse_schedule(x) for name, x in (schedules or {}).items() if isinstance(x, str)}
    request = CompileRequest(
        model, resolved, options, inputs or {}, constants or {}, attrs or {},
        tuned_schedules(resolved, options.threads, tuning),
        texts,
        resolve_jobs(jobs), default_cache() if cache else None, optimized, alias or {},
        lowerings or {},
    )  # fmt: skip
    functions = {name: x for name, x in (schedules or {}).items() if not isinstance(x, str)}
    return with_functions(request, functions)


def load(
    path: str | os.PathLike[str],
    threads: int | None = None,
    *,
    mapped: bool = False,
    require_signature: str | os.PathLike[str] = "",
) -> CompiledModel:
    """Load an artifact (`.gcm`), which is native code: load only files that you trust.

    The checks of a file (hashes, CPU features, a header that describes the code) find damage, not malice, unless a
    signature is required.

    Args:
        path: The file. It is copied to memory and may change afterwards.
        threads: As for `compile`.
        mapped: Leave the constants in the file, so that processes share one copy of them. The file may then be
            replaced, but not truncated: the system would end the process. Transformed weights of Winograd
            convolutions are computed by each process, from weights that the file holds once.
        require_signature: The file of the Ed25519 public key by which the artifact must be signed.

    Raises:
        UserError: The file is corrupt, not signed as required, or made for another CPU.
    """
    artifact = _loaded(Path(path), mapped, require_signature or None)
    return CompiledModel(artifact, resolve_threads(threads))


def _loaded(path: Path, mapped: bool, key: str | os.PathLike[str] | None) -> Artifact:
    """Return an artifact after checking it; files of weights that were checked before are not read while unchanged."""
    cache = None if key else default_cache()
    artifact = Artifact.load(path, mapped, key=key, known=cache.knows if cache else None)
    if cache and artifact.file and artifact.file.shared:
        cache.remember(artifact.file)
    return artifact


def compile_stages(
    model: Model | CompileRequest,
    target: str | Target = "native",
    options: CompileOptions | None = None,
    on_phase: OnPhase | None = None,
) -> Compilation:
    """Compile without loading and without the cache, keeping every stage.

    A request says all of it; `target` and `options` are for a model that needs no more.
    """
    if not isinstance(model, CompileRequest):
        resolved = target_for(target) if isinstance(target, str) else target
        model = CompileRequest(model, resolved, options or CompileOptions())
    request = _checked(replace(model, cache=None))
    with paused_collector(), reproducible(request):
        return run_stages(request, Phases(on_phase))


def compile_request(request: CompileRequest, on_phase: OnPhase | None = None) -> Outcome:
    """The artifact of a request: from its cache where it is there, else compiled and put there.

    A dump shows every stage, and a limit on memory is checked on the graph, so that neither uses the cache.
    """
    phases, request = Phases(on_phase), _checked(request)
    if loops_are_extended():  # other processes do not know them, nor does the key of a kernel
        request = replace(request, cache=None, jobs=1)
    if request.options.dump_dir is not None or request.options.max_memory is not None:
        request = replace(request, cache=None)
    with paused_collector(), reproducible(request):
        if request.cache is None or request.optimized:  # the keys of models are of graphs as read
            return Outcome(
                request, run_stages(request, phases, consume=True).artifact, False, phases
            )
        return _cached(request, request.cache, phases)


def _checked(request: CompileRequest) -> CompileRequest:
    """The request, whose lowerings are for ops of its model."""
    if request.lowerings:
        check_lowerings(request.lowerings, request.source)
    return request


def _cached(request: CompileRequest, cache: CompileCache, phases: Phases) -> Outcome:
    """Compile like `compile_request`, but look up the file's status, its bytes, and then the graph read from it."""
    with phases("cache"):
        code = user_code(lowerings=request.lowerings)
        aliases, artifact = _of_file(request, cache, code.key) if not code.unknown else ([], None)
    if artifact is not None:
        return Outcome(request, artifact, True, phases)
    with phases("read"):
        source = request.source
    with phases("cache"):
        code = user_code(source, request.lowerings)
        key = cache_key(request, code.key)
        artifact = cache.get(key) if not code.unknown else None
    if code.unknown:  # kernels come from the cache all the same
        artifact = run_stages(request, phases, consume=True).artifact
        return Outcome(request, artifact, False, phases, code.unknown)
    found = artifact is not None
    if artifact is None:
        artifact = run_stages(request, phases, consume=True).artifact
        with phases("keep"):
            is_kept = cache.put(key, artifact)
        if is_kept:
            artifact = cache.reopened(key, artifact)
    if found or is_kept:
        for alias in aliases:
            cache.link(alias, key)
    return Outcome(request, artifact, found, phases)


def _of_file(
    request: CompileRequest, cache: CompileCache, code: str
) -> tuple[list[str], Artifact | None]:
    """Return the keys of a model's file that may refer to an entry, and the artifact of the first that does."""
    status = status_key(request, code)
    key = cache.resolve(status) if status else None
    artifact = cache.get(key) if key else None
    if artifact is not None:
        return [], artifact
    contents = file_key(request, code)
    if contents is None:
        return [], None
    aliases = [contents, status] if status else [contents]
    key = cache.resolve(contents)
    artifact = cache.get(key) if key else None
    if key and artifact is not None and status:
        cache.link(status, key)
    return aliases, artifact
