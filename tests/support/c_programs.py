"""C programs that call a model's library: inputs from a file, outputs to another."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

MAIN = """
#include HEADER
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)
#define M(name) NAME(PREFIX, name)
#define MANY 64

static void *allocate(int64_t bytes) {
    void *memory = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64);
    if (memory == NULL) exit(101);
    return memory;
}

int main(int count, char **words) {
    int64_t dims[MANY] = {0};
    void *inputs[MANY], *outputs[MANY];
    int64_t threads = atoi(words[1]);
    (void)threads;
    for (int i = 2; i < count; i++) dims[i - 2] = atoll(words[i]);
    const M(_dims_t) *sizes = (const M(_dims_t) *)dims;
    const M(_info_t) *info = M(_info)();
    if (*info->isa == 0) return 100;
    FILE *source = fopen("inputs.bin", "rb"), *target = fopen("outputs.bin", "wb");
    for (int64_t i = 0; i < info->input_count; i++) {
        size_t bytes = (size_t)M(_input_bytes)(i, sizes);
        inputs[i] = allocate((int64_t)bytes);
        if (fread(inputs[i], 1, bytes, source) != bytes) return 102;
    }
    for (int64_t i = 0; i < info->output_count; i++) outputs[i] = allocate(M(_output_bytes)(i, sizes));
    void *weights = NULL;
    if (*info->weights) {
        FILE *file = fopen(info->weights, "rb");
        fseek(file, 0, SEEK_END);
        long bytes = ftell(file);
        rewind(file);
        void *whole = allocate(bytes);
        if (fread(whole, 1, (size_t)bytes, file) != (size_t)bytes) return 103;
        weights = (void *)M(_weights)(whole, bytes);
    }
    @ALIASES@
    int64_t room = M(_arena_bytes)(sizes);
    void *arena = allocate(room);
    M(_runtime_t) *pool = @POOL@;
    int32_t status = 0;
    for (int i = 0; i < 3 && status == 0; i++)
        status = M(_run)((const M(_inputs_t) *)inputs, (const M(_outputs_t) *)outputs, sizes, weights, arena, room,
                         pool);
    if (status != 0) puts(M(_error)(status));
    for (int64_t i = 0; i < info->output_count && status == 0; i++)
        fwrite(outputs[i], 1, (size_t)M(_output_bytes)(i, sizes), target);
    fclose(target);
    @END@
    return -status;
}
"""
"""`program THREADS DIM...`"""


def needs(*tools: str) -> None:
    """Skip the test where a tool is not installed."""
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def build(
    folder: Path,
    prefix: str,
    library: str,
    words: Sequence[str] = ("gcc",),
    aliases: Sequence[tuple[int, int]] = (),
    main: str = MAIN,
    header: str = "",
) -> Path:
    """Compile the program against a library of the folder; `aliases`: (output, input) with one pointer."""
    needs(words[0])
    header = header or f"{prefix}.h"
    pool = f"{prefix}_pool_create" in (folder / header).read_text()
    end = f"{prefix}_pool_destroy(pool);" if pool else ""
    text = main.replace("@ALIASES@", "".join(f"outputs[{a}] = inputs[{b}];" for a, b in aliases))
    text = text.replace(
        "@POOL@", f"threads > 1 ? {prefix}_pool_create(threads) : NULL" if pool else "NULL"
    )
    language = "cpp" if "++" in words[0] else "c"
    source = folder / f"main.{language}"
    source.write_text(text.replace("@END@", end))
    given = [f"-DPREFIX={prefix}", f'-DHEADER="{header}"']
    flags = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-Wl,-rpath,$ORIGIN"]
    done = subprocess.run(
        [*words, *flags, *given, source.name, library, "-o", "program"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "program"


def run(
    program: Path,
    arrays: Sequence[np.ndarray],
    dims: Sequence[int] = (),
    threads: int = 1,
    under: Sequence[str] = (),
) -> tuple[int, bytes]:
    """Run the program; return its exit code and the bytes of all outputs."""
    needs(*under[:1])
    data = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    (program.parent / "inputs.bin").write_bytes(data)
    output = program.parent / "outputs.bin"
    output.write_bytes(b"")
    words = [*under, str(program), str(threads), *map(str, dims)]
    done = subprocess.run(
        words,
        cwd=program.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )
    assert done.returncode >= 0 and "ERROR" not in done.stderr, done.stderr + done.stdout
    return done.returncode, output.read_bytes()
