/* Classify rows of 13 numbers, read as text, with a model compiled to a static library:
 *
 *     graphc compile examples/mlp.onnx -o mlp.a
 *     cc -I. examples/classify.c mlp.a -o classify
 *     seq 26 | ./classify
 *
 * The program needs no Python; mlp.a holds the weights. */
#include "mlp.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 32, FEATURES = 13, CLASSES = 128 };

/* The index of the largest score. */
static int best(const float *scores) {
    int found = 0;
    for (int i = 1; i < CLASSES; i++)
        if (scores[i] > scores[found]) found = i;
    return found;
}

int main(void) {
    static float x[BATCH][FEATURES], y[BATCH][CLASSES];
    int numbers = 0;
    while (numbers < BATCH * FEATURES && scanf("%f", &x[0][numbers]) == 1) numbers++;

    int64_t bytes = (mlp_arena_bytes(NULL) + 63) / 64 * 64;
    void *arena = aligned_alloc(64, (size_t)bytes);
    mlp_inputs_t inputs = {&x[0][0]};
    mlp_outputs_t outputs = {&y[0][0]};
    int32_t status = mlp_run(&inputs, &outputs, NULL, NULL, arena, bytes, NULL);
    free(arena);
    if (status != MLP_OK) {
        fprintf(stderr, "%s\n", mlp_error(status)); /* for example: no code for this CPU */
        return 1;
    }
    for (int row = 0; row < numbers / FEATURES; row++) printf("row %d: class %d\n", row, best(y[row]));
    return 0;
}
