/* Changes of training windows in place: single products, so that the bits are the same on every device. */
#include <string.h>

#include "kernels/cpu/cpu.h"

static void change(float *row, int64_t channels, const int32_t *partner, bool mirrored, const float *factor) {
    for (int64_t c = 0; mirrored && c < channels; c++)
        if (c < partner[c]) {
            float kept = row[c];
            row[c] = row[partner[c]];
            row[partner[c]] = kept;
        }
    for (int64_t c = 0; c < channels; c++)
        row[c] *= factor[c];
}

static void augment_window(const void *ctx, int64_t i, int lane) {
    const struct augment_args *a = ctx;
    int64_t t = a->x.dim[1], c = a->x.dim[2], pad = a->pad[i];
    float *x = mf(&a->x) + i * t * c;
    (void)lane;
    memset(x, 0, (size_t)(pad * c) * sizeof *x);
    memset((uint8_t *)a->labels.data + i * t, AUGMENT_PAD_LABEL, (size_t)pad);
    for (int64_t k = pad; k < t; k++)
        change(x + k * c, c, a->partner, a->mirrored[i], cf(&a->factor) + i * c);
}

int cpu_augment(struct stream *s, const struct augment_args *a, struct err *err) {
    (void)err;
    lanes_for(cpu_threads(s), a->x.dim[0], augment_window, a);
    return 0;
}
