"""The text of the header around what differs between models."""

from __future__ import annotations

from string import Template

HEADER = Template("""\
/**
 * @file
$ABOUT
 *
 * Every function may be called by any number of threads at once, allocates nothing and keeps no state.
 *
 * @code{.c}
 * ${PREFIX}_inputs_t inputs = {...};
 * ${PREFIX}_outputs_t outputs = {...};
 * int64_t bytes = (${PREFIX}_arena_bytes(dims) + 63) / 64 * 64;
 * void *arena = aligned_alloc(64, bytes);
 * int32_t status = ${PREFIX}_run(&inputs, &outputs, dims, weights, arena, bytes, NULL);
 * if (status != 0) puts(${PREFIX}_error(status));
 * @endcode
 */
#ifndef $GUARD
#define $GUARD

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Results of ${PREFIX}_run. A positive number is what the `hook` of the runtime returned to end the run. */
enum {
$STATUSES
};

/** Description of an input or output. Arrays are dense and row-major. */
typedef struct {
    const char *name;    /**< name in the model */
    const char *dtype;   /**< element type: f32, f16, bf16, s64, u8, bool, ... */
    const char *shape;   /**< extents of the axes, with the names of dynamic dimensions: "N,13" */
    int64_t rank;        /**< number of axes */
    const int64_t *dims; /**< extents of the axes, -1 for those that are dynamic */
} ${PREFIX}_tensor_t;

/** Name and range of a dynamic dimension. */
typedef struct {
    const char *name; /**< name in the model */
    int64_t min;      /**< least value */
    int64_t max;      /**< greatest value */
} ${PREFIX}_dim_t;

/** Description of the model. */
typedef struct {
    const char *name;                 /**< name of the model */
    const char *hash;                 /**< hash of its contents */
    const char *version;              /**< version of graphc that compiled it */
    const char *isas;                 /**< instruction sets in the library, separated by spaces */
    const char *isa;                  /**< the one that this CPU runs; empty where it runs none */
    const char *weights;              /**< name of the file with the weights; empty where the library holds them */
    int64_t abi;                      /**< version of the calling convention */
    int64_t weights_bytes;            /**< size of the weights */
    int64_t input_count;              /**< number of inputs */
    const ${PREFIX}_tensor_t *inputs;  /**< the inputs, in the order of ${PREFIX}_inputs_t */
    int64_t output_count;             /**< number of outputs */
    const ${PREFIX}_tensor_t *outputs; /**< the outputs, in the order of ${PREFIX}_outputs_t */
    int64_t dim_count;                /**< number of dynamic dimensions */
    const ${PREFIX}_dim_t *dims;       /**< the dynamic dimensions, in the order of ${PREFIX}_dims_t */
} ${PREFIX}_info_t;

/** Pointers to the inputs. */
typedef struct {
$INPUTS
} ${PREFIX}_inputs_t;

/** Pointers to the outputs. */
typedef struct {
$OUTPUTS
} ${PREFIX}_outputs_t;

/** Values of the dynamic dimensions. */
typedef struct {
$DIMS
} ${PREFIX}_dims_t;

/** What runs the loops of one call, and may end it. Null: the calling thread runs them, and nothing ends it. */
typedef struct ${PREFIX}_runtime_t {
    /** Calls `task(context, i)` once for every 0 <= i < count, on any threads, and returns when all calls have. */
    void (*parallel_for)(struct ${PREFIX}_runtime_t *runtime, void (*task)(void *context, int64_t i), void *context,
                         int64_t count);
    void *pool; /**< for `parallel_for` */
    /** Null, or called a few times a second: another number than 0 ends the run, which returns it. */
    int32_t (*hook)(struct ${PREFIX}_runtime_t *runtime);
    /** Null, or called once by a run that was ended. */
    int32_t (*ended)(struct ${PREFIX}_runtime_t *runtime);
    int64_t checked;     /**< starts as 0 */
    int32_t stopped;     /**< starts as 0 */
    const char *error;   /**< starts as null */
    int64_t error_index; /**< starts as 0 */
} ${PREFIX}_runtime_t;

/** Returns the description of the model; never null, and valid as long as the library is loaded. */
const ${PREFIX}_info_t *${PREFIX}_info(void);

/** Returns the text of a status. */
const char *${PREFIX}_error(int32_t status);

/**
 * Returns the bytes of scratch memory that a run needs.
 *
 * @param dims  values of the dynamic dimensions; null for a model without
 * @return bytes, or a negative status
 */
int64_t ${PREFIX}_arena_bytes(const ${PREFIX}_dims_t *dims);

/** Returns the bytes of an input by its number, or a negative status; `dims` as above. */
int64_t ${PREFIX}_input_bytes(int64_t index, const ${PREFIX}_dims_t *dims);

/** Returns the bytes of an output by its number, or a negative status; `dims` as above. */
int64_t ${PREFIX}_output_bytes(int64_t index, const ${PREFIX}_dims_t *dims);

/**
 * Finds the weights in the bytes of the file that ${PREFIX}_info()->weights names.
 *
 * @param file   the whole file in memory, mapped or read to an address that 64 divides
 * @param bytes  its size
 * @return the weights for ${PREFIX}_run, or null where it is another file
 */
const void *${PREFIX}_weights(const void *file, int64_t bytes);

/**
 * Runs the model once.$CONDITIONS
 *
 * @param inputs       pointers to the inputs, aligned to their elements; that of an array without elements may be null
 * @param outputs      pointers to the outputs, likewise
 * @param dims         values of the dynamic dimensions; null for a model without
 * @param weights      $WEIGHTS
 * @param arena        scratch memory of this call, aligned to 64 bytes; null where it needs none
 * @param arena_bytes  size of that memory, at least ${PREFIX}_arena_bytes(dims)
 * @param runtime      null, a thread pool, or a runtime of the caller
 * @return 0, or a status
 */
int32_t ${PREFIX}_run(const ${PREFIX}_inputs_t *inputs, const ${PREFIX}_outputs_t *outputs,
                  const ${PREFIX}_dims_t *dims, const void *weights, void *arena, int64_t arena_bytes,
                  ${PREFIX}_runtime_t *runtime);
$POOL
#ifdef __cplusplus
}
#endif

#endif
""")

POOL = Template("""
/**
 * Creates a thread pool: a runtime for ${PREFIX}_run, also for several calls at once, whose loops then take turns.
 *
 * @param threads  number of threads, with that of the caller
 * @return the pool; null where the number is not from 1 to 1024, or the system refuses memory. Its threads start with
 *     the first loop.
 */
${PREFIX}_runtime_t *${PREFIX}_pool_create(int64_t threads);

/** Ends the threads of a pool and frees it, unless it is null; no run may use it any more. */
void ${PREFIX}_pool_destroy(${PREFIX}_runtime_t *pool);
""")
