/* masks: from probabilities to the samples of seizures, row by row. Opening and closing are rules on the lengths of runs. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

struct latch {
    double on, off;
    int64_t min_onset, min_offset;
};

static void latch_row(const struct latch *l, const float *p, uint8_t *mask, int64_t n) {
    bool active = false;
    int64_t run = 0; /* newest samples that count towards the other state */
    for (int64_t t = 0; t < n; t++) {
        if (isnan(p[t])) {
            mask[t] = MASK_GAP;
            active = false;
            run = 0;
            continue;
        }
        run = (active ? (double)p[t] < l->off : (double)p[t] >= l->on) ? run + 1 : 0;
        mask[t] = active ? MASK_ON : MASK_OFF;
        if (run < (active ? l->min_offset : l->min_onset))
            continue;
        if (active)
            mask[t] = MASK_OFF;
        else
            memset(mask + t + 1 - run, MASK_ON, (size_t)run);
        active = !active;
        run = 0;
    }
}

int cpu_hysteresis(struct stream *s, const struct hysteresis_args *a, struct err *err) {
    (void)err;
    int64_t n = a->mask.dim[1], step = a->p.dim[0] == 1 ? 0 : n;
#pragma omp parallel for num_threads(cpu_threads(s)) schedule(dynamic)
    for (int64_t r = 0; r < a->mask.dim[0]; r++) {
        struct latch l = {a->on[r], a->off[r], a->min_onset, a->min_offset};
        latch_row(&l, cf(&a->p) + r * step, (uint8_t *)a->mask.data + r * n, n);
    }
    return 0;
}

/* True if a run goes: one of samples on that is too short for opening, or one of samples off that closing fills. left, right: it
 * touches the segment's ends, beyond which the kernel sees nothing. */
static bool flips(bool on, int64_t length, int64_t kernel, bool left, bool right) {
    if (on)
        return length < kernel && !(left && right) && !((left || right) && length > kernel / 2);
    return left || right ? left != right && length <= kernel / 2 : length < kernel;
}

/* Runs of `value` to the other one where the rule says so. */
static void flip_runs(uint8_t *mask, int64_t n, uint8_t value, int64_t kernel) {
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && mask[end] == mask[i];)
            end++;
        bool left = i == 0 || mask[i - 1] == MASK_GAP, right = end == n || mask[end] == MASK_GAP;
        if (mask[i] == value && flips(value == MASK_ON, end - i, kernel, left, right))
            memset(mask + i, value == MASK_ON ? MASK_OFF : MASK_ON, (size_t)(end - i));
    }
}

int cpu_morphology(struct stream *s, const struct morphology_args *a, struct err *err) {
    (void)err;
    int64_t n = a->mask.dim[1];
#pragma omp parallel for num_threads(cpu_threads(s)) schedule(dynamic)
    for (int64_t r = 0; r < a->mask.dim[0]; r++) {
        uint8_t *mask = (uint8_t *)a->mask.data + r * n;
        flip_runs(mask, n, MASK_ON, a->opening);
        flip_runs(mask, n, MASK_OFF, a->closing);
    }
    return 0;
}
