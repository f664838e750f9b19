"""Small native models written by hand in LLVM IR, so that the runtime is tested without the compiler."""

from __future__ import annotations

from functools import cache

import llvmlite.binding as llvm
import numpy as np

from graphc.base.dtypes import F32
from graphc.codegen.support import thread_pool_module
from graphc.runtime import abi
from graphc.runtime.artifact import Artifact
from graphc.runtime.metadata import Metadata, TensorSpec

# out[i] = (a[i] + b[i]) * constants[0], in a parallel loop of `n` tasks. The arena holds the sum for a moment, so that
# two calls that shared one would see each other's numbers.
ADD_IR = """
%context = type {{ ptr, ptr, ptr, ptr, ptr }}

define internal void @task(ptr %ctx, i64 %i) {{
  %c = load %context, ptr %ctx
  %a = extractvalue %context %c, 0
  %b = extractvalue %context %c, 1
  %out = extractvalue %context %c, 2
  %constants = extractvalue %context %c, 3
  %arena = extractvalue %context %c, 4
  %a_at = getelementptr float, ptr %a, i64 %i
  %b_at = getelementptr float, ptr %b, i64 %i
  %o_at = getelementptr float, ptr %out, i64 %i
  %s_at = getelementptr float, ptr %arena, i64 %i
  %x = load float, ptr %a_at
  %y = load float, ptr %b_at
  %scale = load float, ptr %constants
  %sum = fadd float %x, %y
  store volatile float %sum, ptr %s_at
  %again = load volatile float, ptr %s_at
  %r = fmul float %again, %scale
  store float %r, ptr %o_at
  ret void
}}

define i32 @graphc_entry(ptr %inputs, ptr %outputs, ptr %sizes, ptr %constants, ptr %arena, ptr %rt) {{
entry:
  %ctx = alloca %context
  %a = load ptr, ptr %inputs
  %b_at = getelementptr ptr, ptr %inputs, i64 1
  %b = load ptr, ptr %b_at
  %out = load ptr, ptr %outputs
  %c0 = insertvalue %context undef, ptr %a, 0
  %c1 = insertvalue %context %c0, ptr %b, 1
  %c2 = insertvalue %context %c1, ptr %out, 2
  %c3 = insertvalue %context %c2, ptr %constants, 3
  %c4 = insertvalue %context %c3, ptr %arena, 4
  store %context %c4, ptr %ctx
  %serial = icmp eq ptr %rt, null
  br i1 %serial, label %check, label %parallel
parallel:
  %loop = load ptr, ptr %rt
  %threadless = icmp eq ptr %loop, null
  br i1 %threadless, label %check, label %threads
threads:
  call void %loop(ptr %rt, ptr @task, ptr %ctx, i64 {n})
  ret i32 0
check:
  %any = icmp sgt i64 {n}, 0
  br i1 %any, label %body, label %end
body:
  %i = phi i64 [ 0, %check ], [ %next, %body ]
  call void @task(ptr %ctx, i64 %i)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {n}
  br i1 %more, label %body, label %end
end:
  ret i32 0
}}
"""


def signature_ir(metadata: Metadata, constants_bytes: int) -> str:
    """Return the signature of hand-written code: what it was compiled for, and how much scratch memory it takes."""
    text = abi.signature(
        metadata.inputs,
        metadata.outputs,
        constants_bytes,
        metadata.arena_bytes,
    )
    arena = f"define i64 @{abi.ARENA_NAME}(ptr %sizes) {{\n  ret i64 {metadata.arena_bytes}\n}}\n"
    return f'\n@{abi.SIGNATURE_NAME} = constant [{len(text) + 1} x i8] c"{text}\\00"\n{arena}'


def compile_ir(text: str) -> bytes:
    """Object code of an LLVM IR module for this CPU."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="pic", codemodel="jitdefault"
    )
    code: bytes = machine.emit_object(module)
    return code


@cache
def support_code() -> bytes:
    """Object code of the thread pool."""
    return compile_ir(thread_pool_module(llvm.get_process_triple()))


@cache
def add_artifact(shape: tuple[int, ...] = (8, 13), scale: float = 2.0) -> Artifact:
    """`y = (a + b) * scale` on f32 of `shape`, one parallel task per element."""
    n = int(np.prod(shape))
    metadata = Metadata(
        model="add",
        inputs=(TensorSpec("a", F32, shape), TensorSpec("b", F32, shape)),
        outputs=(TensorSpec("y", F32, shape),),
        arena_bytes=4 * n,
        isa="generic",
        triple=llvm.get_process_triple(),
        versions={"graphc": "0.1.0"},
        stats={"ops": 2, "gflop": 0.5},
        model_hash="abc",
    )
    return Artifact(
        metadata=metadata,
        constants=np.full(16, scale, np.float32),
        object_code=compile_ir(ADD_IR.format(n=n) + signature_ir(metadata, 64)),
        support_code=support_code(),
    )


@cache
def copy_artifact(*specs: TensorSpec) -> Artifact:
    """A model whose outputs `<name>_out` are copies of its inputs."""
    lines = ["declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"]
    lines.append(
        "define i32 @graphc_entry(ptr %inputs, ptr %outputs, ptr %sizes, ptr %c, ptr %arena, ptr %rt) {"
    )
    for i, spec in enumerate(specs):
        lines += [
            f"  %s{i} = getelementptr ptr, ptr %inputs, i64 {i}",
            f"  %t{i} = getelementptr ptr, ptr %outputs, i64 {i}",
            f"  %x{i} = load ptr, ptr %s{i}",
            f"  %y{i} = load ptr, ptr %t{i}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %y{i}, ptr %x{i}, i64 {spec.nbytes}, i1 0)",
        ]
    lines += ["  ret i32 0", "}"]
    outputs = tuple(TensorSpec(f"{s.name}_out", s.dtype, s.shape) for s in specs)
    metadata = Metadata("copy", specs, outputs, arena_bytes=0, isa="generic")
    return Artifact(
        metadata,
        np.empty(0, np.uint8),
        compile_ir("\n".join(lines) + signature_ir(metadata, 0)),
    )
