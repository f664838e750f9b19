"""Templates of the text files in a folder."""

from __future__ import annotations

from string import Template

EXAMPLE_C = Template("""\
/* Written by graphc: runs the model once, on zeros. Build: cc example.c $PREFIX.a -o example */
#include "$PREFIX.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory that 64 divides, filled with zeros; before it lies what `release` frees. */
static void *allocate(int64_t bytes) {
    char *memory = bytes < 0 ? NULL : (char *)calloc(1, (size_t)bytes + 128);
    if (memory == NULL) {
        puts("no memory");
        exit(1);
    }
    void **aligned = (void **)(memory + (128 - (uintptr_t)memory % 64));
    aligned[-1] = memory;
    return aligned;
}

static void release(const void *aligned) {
    free(((void *const *)aligned)[-1]);
}

static void *read_file(const char *name, int64_t *bytes) {
    FILE *file = fopen(name, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (*bytes = ftell(file)) < 0) {
        printf("%s cannot be read\\n", name);
        exit(1);
    }
    rewind(file);
    void *memory = allocate(*bytes);
    if (fread(memory, 1, (size_t)*bytes, file) != (size_t)*bytes) exit(1);
    fclose(file);
    return memory;
}

int main(void) {
    const ${PREFIX}_info_t *info = ${PREFIX}_info();
    if (*info->isa == 0) {
        puts(${PREFIX}_error(${UPPER}_ERROR_CPU));
        return 1;
    }
    printf("%s on %s\\n", info->name, info->isa);
$DIMS
    int64_t bytes = 0;
    void *file = read_file(info->weights, &bytes); /* or mapped, so that processes share it */
    const void *weights = ${PREFIX}_weights(file, bytes);

    ${PREFIX}_inputs_t inputs;
$INPUTS
    ${PREFIX}_outputs_t outputs;
$OUTPUTS
    int64_t arena_bytes = ${PREFIX}_arena_bytes($SIZED);
    void *arena = allocate(arena_bytes);
    ${PREFIX}_runtime_t *pool = $POOL;

    int32_t status = ${PREFIX}_run(&inputs, &outputs, $SIZED, weights, arena, arena_bytes, pool);
    if (status != ${UPPER}_OK) {
        puts(${PREFIX}_error(status));
        return 1;
    }
$PRINTS
$END$RELEASES
    return 0;
}
""")

EXAMPLE_CPP = Template("""\
// Written by graphc: runs the model once, on zeros. Build: c++ -std=c++17 example.cpp $PREFIX.a -o example
#include "$PREFIX.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>

namespace {

/// Memory that 64 divides, filled with zeros.
struct Memory {
    explicit Memory(std::int64_t bytes) {
        if (bytes < 0) throw std::runtime_error(${PREFIX}_error(static_cast<std::int32_t>(bytes)));
        data = ::operator new(static_cast<std::size_t>(bytes) + 1, std::align_val_t(64));
        std::memset(data, 0, static_cast<std::size_t>(bytes));
    }
    ~Memory() { ::operator delete(data, std::align_val_t(64)); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    void *data;
};

}  // namespace

int main() {
    const ${PREFIX}_info_t *info = ${PREFIX}_info();
    if (*info->isa == 0) {
        std::puts(${PREFIX}_error(${UPPER}_ERROR_CPU));
        return 1;
    }
    std::printf("%s on %s\\n", info->name, info->isa);
$DIMS
    std::ifstream file(info->weights, std::ios::binary | std::ios::ate);
    const std::int64_t bytes = file ? static_cast<std::int64_t>(file.tellg()) : 0;
    Memory whole(bytes);
    file.seekg(0).read(static_cast<char *>(whole.data), bytes);
    const void *weights = ${PREFIX}_weights(whole.data, bytes);

    ${PREFIX}_inputs_t inputs;
$CPP_INPUTS
    ${PREFIX}_outputs_t outputs;
$CPP_OUTPUTS
    const std::int64_t arena_bytes = ${PREFIX}_arena_bytes($SIZED);
    Memory arena(arena_bytes);
    ${PREFIX}_runtime_t *pool = $POOL;

    const std::int32_t status =
        ${PREFIX}_run(&inputs, &outputs, $SIZED, weights, arena.data, arena_bytes, pool);
    if (status != ${UPPER}_OK) {
        std::puts(${PREFIX}_error(status));
        return 1;
    }
$PRINTS
$END    return 0;
}
""")

CMAKE = Template("""\
# Written by graphc: add_subdirectory(this folder), then target_link_libraries(program ${PREFIX}) or ${PREFIX}_static.
cmake_minimum_required(VERSION 3.13)
project(${PREFIX}_model C)

add_library($PREFIX SHARED IMPORTED GLOBAL)
set_target_properties($PREFIX PROPERTIES
    IMPORTED_LOCATION "$${CMAKE_CURRENT_SOURCE_DIR}/$PREFIX.so"
    INTERFACE_INCLUDE_DIRECTORIES "$${CMAKE_CURRENT_SOURCE_DIR}")

add_library(${PREFIX}_static STATIC IMPORTED GLOBAL)
set_target_properties(${PREFIX}_static PROPERTIES
    IMPORTED_LOCATION "$${CMAKE_CURRENT_SOURCE_DIR}/$PREFIX.a"
    INTERFACE_INCLUDE_DIRECTORIES "$${CMAKE_CURRENT_SOURCE_DIR}")

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    enable_language(CXX)
    set(CMAKE_CXX_STANDARD 17)
    add_executable(example_c example.c)
    target_link_libraries(example_c ${PREFIX}_static)
    add_executable(example_cpp example.cpp)
    target_link_libraries(example_cpp $PREFIX)
endif()
""")

PKG_CONFIG = Template("""\
prefix=$${pcfiledir}

Name: $PREFIX
Description: model $MODEL, compiled by graphc
Version: $VERSION
Cflags: -I$${prefix}
Libs: -L$${prefix} -l:$PREFIX.so
""")
