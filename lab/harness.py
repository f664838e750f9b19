"""The C program beside an exported kernel: it reads inputs, calls the kernel, compares and times it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.dims import evaluate
from ..base.dtypes import from_numpy
from ..runtime.artifact import Artifact
from .program import Array

_C_TYPES = {
    "f32": "float", "f64": "double", "s8": "int8_t", "u8": "uint8_t", "s16": "int16_t", "u16": "uint16_t",
    "s32": "int32_t", "u32": "uint32_t", "s64": "int64_t", "u64": "uint64_t", "bool": "uint8_t",
}  # fmt: skip
"""C's types of results that are compared element by element; 16-bit floats are compared by `_HALVES`."""

_HALVES = {
    "f16": "static double value(uint16_t h) {\n    double m = h & 1023, s = h >> 15 ? -1 : 1;\n"
    "    int e = h >> 10 & 31;\n    return s * (e ? ldexp(1024 + m, e - 25) : ldexp(m, -24));\n}\n",
    "bf16": "static double value(uint16_t h) {\n    union { uint32_t u; float f; } x = {(uint32_t)h << 16};\n"
    "    return x.f;\n}\n",
}  # fmt: skip

_TEXT = """\
/* Checks and times kernel.o on one thread: make run */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int32_t graphc_entry(const void *const *inputs, void *const *outputs, const int64_t *sizes, const void *constants,
                     void *arena, void *rt);

static void *filled(const char *path, size_t bytes) {
    void *data = NULL;
    if (posix_memalign(&data, 64, bytes ? bytes : 1)) exit(2);
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (path && (!file || fread(data, 1, bytes, file) != bytes)) { perror(path); exit(2); }
    if (file) fclose(file);
    return data;
}

%(value)s
static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int count, char **words) {
    int rounds = count > 1 ? atoi(words[1]) : 200;
    const void *inputs[] = {%(inputs)s};
    void *outputs[] = {%(outputs)s};
    const int64_t sizes[] = {%(sizes)s};
    void *constants = filled("data/constants.bin", %(constants)s), *arena = filled(NULL, %(arena)s);
    double worst = 0, best = 1e30;
    if (graphc_entry(inputs, outputs, sizes, constants, arena, NULL)) return 1;
%(checks)s
    for (int i = 0; i < rounds; i++) {
        double start = seconds();
        graphc_entry(inputs, outputs, sizes, constants, arena, NULL);
        double taken = seconds() - start;
        if (taken < best) best = taken;
    }
    printf("%%.3f us, largest error %%.3g of the largest result\\n", best * 1e6, worst);
    return worst > %(bound)s;
}
"""

_CHECK = """\
    {
        const %(type)s *found = outputs[%(number)d], *right = filled("data/y%(number)d.bin", %(bytes)d);
        double error = 0, most = 0;
        for (size_t i = 0; i < %(count)d; i++) {
            error = fmax(error, fabs(value(found[i]) - value(right[i])));
            most = fmax(most, fabs(value(right[i])));
        }
        worst = fmax(worst, most ? error / most : error);
    }
"""


def harness(
    artifact: Artifact, inputs: Sequence[Array], expected: Sequence[Array], sizes: Mapping[str, int]
) -> str:
    """Return the program for these inputs and results, which are files in data/."""
    dtype, metadata = from_numpy(expected[0].dtype).name, artifact.metadata
    checks = "".join(
        _CHECK % {
            "type": _C_TYPES.get(from_numpy(y.dtype).name, "uint16_t"), "number": number,
            "bytes": y.nbytes, "count": y.size,
        }
        for number, y in enumerate(expected)
    )  # fmt: skip
    return _TEXT % {
        "value": _HALVES.get(dtype, "#define value(x) ((double)(x))"),
        "inputs": ", ".join(f'filled("data/x{i}.bin", {x.nbytes})' for i, x in enumerate(inputs)),
        "outputs": ", ".join(f"filled(NULL, {y.nbytes})" for y in expected),
        "sizes": ", ".join(str(sizes[s.name]) for s in metadata.sizes) or "0",
        "constants": str(len(artifact.constants)),
        "arena": str(evaluate(metadata.arena_bytes, sizes)),
        "checks": checks,
        "bound": "0" if from_numpy(expected[0].dtype).kind in ("int", "uint") else "0.02",
    }  # fmt: skip


def makefile() -> str:
    """Return the rules: an edited kernel.s is assembled before the program is linked."""
    return (
        "CFLAGS = -O2 -Wall\n\nrun: harness\n\t./harness\n\n"
        "harness: harness.c kernel.o\n\t$(CC) $(CFLAGS) -o $@ harness.c kernel.o -lm\n\n"
        "kernel.o: kernel.s\n\t$(CC) -c -o $@ kernel.s\n\n.PHONY: run\n"
    )
