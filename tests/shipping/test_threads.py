"""Native libraries and threads: pools after forks, loops of the program, and calls at once."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest

import graphc
from support.c_programs import needs
from support.layers import layer

pytestmark = pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64",
    reason="libraries that run are ELF, and the programs are for this machine",
)

FORKS = """
#include "layer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static float x[256 * 32] __attribute__((aligned(64))), y[2][256 * 512] __attribute__((aligned(64)));

static int32_t run(int i, layer_runtime_t *pool, void *arena) {
    layer_inputs_t inputs = {x};
    layer_outputs_t outputs = {y[i]};
    return layer_run(&inputs, &outputs, NULL, NULL, arena, layer_arena_bytes(NULL), pool);
}

static int64_t tasks;

static void own_loop(layer_runtime_t *runtime, void (*task)(void *, int64_t), void *context, int64_t count) {
    (void)runtime;
    for (int64_t i = count - 1; i >= 0; i--, tasks++) task(context, i);
}

int main(void) {
    layer_runtime_t own = {own_loop, NULL, NULL, NULL, 0, 0, NULL, 0};
    layer_runtime_t *pool = layer_pool_create(3);
    void *arena = aligned_alloc(64, (size_t)layer_arena_bytes(NULL) / 64 * 64 + 64);
    if (pool == NULL || layer_pool_create(0) != NULL || layer_pool_create(1025) != NULL) return 1;
    for (int i = 0; i < 256 * 32; i++) x[i] = (float)(i % 11 - 5);
    if (run(0, pool, arena) != 0) return 2;
    if (run(1, &own, arena) != 0 || tasks == 0 || memcmp(y[0], y[1], sizeof y[0]) != 0) return 6;
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) {
            int32_t status = run(1, pool, arena);
            layer_pool_destroy(pool);
            _exit(status != 0 || memcmp(y[0], y[1], sizeof y[0]) != 0);
        }
        int status = -1;
        if (waitpid(child, &status, 0) != child || status != 0) return 3;
    }
    if (run(1, pool, arena) != 0 || memcmp(y[0], y[1], sizeof y[0]) != 0) return 4;
    layer_pool_destroy(pool);
    for (int i = 0; i < 20; i++) {  /* threads end with their pool */
        pool = layer_pool_create(4);
        if (run(1, pool, arena) != 0) return 5;
        layer_pool_destroy(pool);
    }
    return 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [(), ("-static",), ("-fsanitize=address",)])
def test_pools_survive_forks_and_programs_have_loops_of_theirs(
    flags: tuple[str, ...], compiler: str, tmp_path: Path
) -> None:
    needs(compiler)
    graphc.export(layer(256, width=512), tmp_path / "layer.a", threads=2)
    (tmp_path / "forks.c").write_text(FORKS)
    words = [compiler, "-O1", "-D_GNU_SOURCE", *flags, "forks.c", "layer.a", "-o", "forks"]
    subprocess.run(words, cwd=tmp_path, check=True)
    options = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    assert subprocess.run([tmp_path / "forks"], env=options, timeout=60).returncode == 0


CALLS = """
#include "layer.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static float x[256 * 32] __attribute__((aligned(64)));
static layer_runtime_t *pool;

static void *work(void *result) {
    int64_t bytes = layer_arena_bytes(NULL) / 64 * 64 + 64;
    layer_inputs_t inputs = {x};
    layer_outputs_t outputs = {result};
    void *arena = aligned_alloc(64, (size_t)bytes);
    for (int i = 0; i < 20; i++)
        if (layer_run(&inputs, &outputs, NULL, NULL, arena, bytes, i % 2 ? pool : NULL) != 0) abort();
    free(arena);
    return NULL;
}

int main(void) {
    static float y[8][256 * 512];
    pthread_t threads[8];
    pool = layer_pool_create(3);
    for (int i = 0; i < 256 * 32; i++) x[i] = (float)(i % 11 - 5);
    for (int i = 0; i < 8; i++)
        if (pthread_create(&threads[i], NULL, work, y[i]) != 0) return 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    layer_pool_destroy(pool);
    for (int i = 1; i < 8; i++)
        if (memcmp(y[0], y[i], sizeof y[0]) != 0) return 2;
    return y[0][0] == 0 && y[0][1] == 0;
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [(), ("-fsanitize=thread",), ("-static",)])
def test_threads_call_at_once_with_arenas_of_theirs(
    flags: tuple[str, ...], compiler: str, tmp_path: Path
) -> None:
    needs(compiler)
    graphc.export(layer(256, width=512), tmp_path / "layer.a", threads=2)
    (tmp_path / "calls.c").write_text(CALLS)
    words = [compiler, "-O1", "-pthread", *flags, "calls.c", "layer.a", "-o", "calls"]
    subprocess.run(words, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "calls"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
