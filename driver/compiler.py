"""The driver: a model to a `CompiledModel`. One path: request, cache, stages, artifact."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..base.collector import paused_collector
from ..base.memory_limit import parse_memory
from ..base.options import CompileOptions, verify_asked
from ..base.records import dataclass
from ..base.target import Target
from ..codegen.host import target_for
from ..graph_ir.ir.schedule import parse_schedule
from ..runtime.artifact import Artifact
from ..runtime.executor import CompiledModel
from ..runtime.threadpool import resolve_threads
from .cache_key import cache_key, file_key
from .compile_cache import CompileCache, default_cache
from .extensions import loops_are_extended, user_code
from .phases import OnPhase, Phases
from .reproducer import reproducible
from .request import CompileRequest, Model, resolve_jobs
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
    schedules: Mapping[str, str] | None = None,
    constants: Mapping[str, np.ndarray] | None = None,
    attrs: Mapping[str, str] | None = None,
    cache: bool = True,
    jobs: int | None = None,
    optimized: bool = False,
    max_memory: str | None = None,
    precision: str = "f32",
    alias: Mapping[str, str] | str | None = None,
) -> CompiledModel:
    """Compile a model for this machine and load it.

    `model`: a path, the bytes of a file, an onnx.ModelProto, a torch.export.ExportedProgram, a jax.export.Exported or a
    Graph. `target`: native, avx512, avx2 or generic.
    `threads`: None takes GRAPHC_NUM_THREADS, OMP_NUM_THREADS or the CPUs this process may use. `inputs`: shapes the
    file leaves open, such as {"x": "f32[8,13]"}. `disabled`: optimisations to turn off (`options.SWITCHES`).
    `constants`: arrays the file omits; `attrs`: attributes it does not specify ({"node.axis": "1"}). `tuning`: a file
    of measured schedules (default: the one `graphc tune` writes, if there is one). `schedules`: how the kernels of some
    ops run, or a few settings of each: {"fc1": "mr=8 nv=3 kc=256"}. `cache`: whether to use the compile cache
    (`graphc dev cache status`). `jobs`: processes to compile with; None takes GRAPHC_JOBS or the CPUs of this process.
    `optimized`: the model is a graph as the passes leave it, printed, perhaps edited, and parsed: no pass runs.
    `max_memory`: what the model may need to run, such as "16G"; None takes what this process may use.
    `precision`: what products of an f32 model are computed in: "f32", "bf16" or "f16" operands with f32 sums, "int8"
    (rows of activations quantised when they are known, weights per output) or "int4" (weights in groups of 32).
    `alias`: outputs that are written into the memory of an input: {"present": "past"}. A cache that the model extends
    grows in place: its input is the filled part of a larger array (`buffer[:, :, :length]`), its output a longer view.
    "auto" finds all such outputs.
    UserError, UnsupportedError.
    """
    resolved = target_for(target) if isinstance(target, str) else target
    dump = Path(dump_dir) if dump_dir else None
    options = CompileOptions(
        resolve_threads(threads), frozenset(disabled), dump, verify_asked(),
        max_memory=parse_memory(max_memory) if max_memory else None, precision=precision,
    )  # fmt: skip
    request = CompileRequest(
        model,
        resolved,
        options,
        inputs or {},
        constants or {},
        attrs or {},
        tuned_schedules(resolved, options.threads, tuning),
        {name: parse_schedule(text) for name, text in (schedules or {}).items()},
        resolve_jobs(jobs),
        default_cache() if cache else None,
        optimized,
        alias or {},
    )
    return CompiledModel(compile_request(request).artifact, options.threads)


def load(
    path: str | os.PathLike[str], threads: int | None = None, *, mapped: bool = False
) -> CompiledModel:
    """Load a `.gcm` artifact. UserError if it is damaged or made for another CPU.

    The file is copied to memory and may change afterwards. `mapped`: its constants stay in the file, so that processes
    share one copy of them; the file may be replaced then, but not truncated (the system would end the process).
    An artifact is native code: loading and running one is trusting whoever made it, as with a shared library. What is
    checked (hashes, that the header describes the code) finds damage, not malice.
    """
    artifact = Artifact.load(path, mapped)
    return CompiledModel(artifact, resolve_threads(threads))


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
    request = replace(model, cache=None)
    with paused_collector(), reproducible(request):
        return run_stages(request, Phases(on_phase))


def compile_request(request: CompileRequest, on_phase: OnPhase | None = None) -> Outcome:
    """The artifact of a request: from its cache where it is there, else compiled and put there.

    A dump shows every stage, so that nothing comes from the cache.
    """
    phases = Phases(on_phase)
    if loops_are_extended():  # other processes do not know them, nor does the key of a kernel
        request = replace(request, cache=None, jobs=1)
    if request.options.dump_dir is not None:
        request = replace(request, cache=None)
    with paused_collector(), reproducible(request):
        if request.cache is None or request.optimized:  # the keys of models are of graphs as read
            return Outcome(
                request, run_stages(request, phases, consume=True).artifact, False, phases
            )
        return _cached(request, request.cache, phases)


def _cached(request: CompileRequest, cache: CompileCache, phases: Phases) -> Outcome:
    """As `compile_request`: found by the bytes of the file, else by the graph that is read from it."""
    with phases("cache"):
        code = user_code()
        alias = file_key(request, code.key) if not code.unknown else None
        key = cache.resolve(alias) if alias else None
        artifact = cache.get(key) if key else None
    if artifact is not None:
        return Outcome(request, artifact, True, phases)
    with phases("read"):
        source = request.source
    with phases("cache"):
        code = user_code(source)
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
    if alias and (found or is_kept):
        cache.link(alias, key)
    return Outcome(request, artifact, found, phases)
