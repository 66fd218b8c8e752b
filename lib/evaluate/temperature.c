#include "evaluate/temperature.h"

#include "base/grow.h"

enum { HALVINGS = 50 };
static const double least_p = 1e-7;

/* The sums over a second. */
struct second {
    double p;
    int measured, seizure;
};

static int put_second(struct temperature_seconds *s, const struct second *from, struct err *err) {
    if (2 * from->measured < FRONTEND_RATE_HZ)
        return 0;
    if (!GROW(s->items, s->n, s->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld seconds of traces", (long long)s->capacity);
    double p = fmin(fmax(from->p / from->measured, least_p), 1 - least_p);
    s->items[s->n++] = (struct temperature_second){(float)(log(p) - log1p(-p)), (float)from->seizure / (float)from->measured};
    return 0;
}

int temperature_add(struct temperature_seconds *s, const struct recording_info *info, const float *p, struct err *err) {
    int seizure = 0, masked = 0, rc = 0;
    for (int k = 0; k < info->n_segments && !rc; k++, p++) {
        const struct window_span *segment = &info->segments[k];
        struct second second = {0};
        for (int64_t i = segment->first; i < segment->end && !rc; i++, p++) {
            while (seizure < info->n_seizures && i >= info->seizures[seizure].end)
                seizure++;
            while (masked < info->n_masked && i >= info->masked[masked].end)
                masked++;
            if (!isnan(*p) && !(masked < info->n_masked && i >= info->masked[masked].first)) {
                second.p += (double)*p;
                second.measured++;
                second.seizure += seizure < info->n_seizures && i >= info->seizures[seizure].first;
            }
            if ((i + 1 - segment->first) % FRONTEND_RATE_HZ)
                continue;
            rc = put_second(s, &second, err);
            second = (struct second){0};
        }
    }
    return rc;
}

/* The derivative of the cross entropy by a = 1/T, times n: it rises with a. */
static double slope(const struct temperature_seconds *s, double a) {
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double z = (double)s->items[i].z;
        sum += z * (1 / (1 + exp(-a * z)) - (double)s->items[i].seizure);
    }
    return sum;
}

double temperature_fit(const struct temperature_seconds *s) {
    double seizure = 0, low = log(TEMPERATURE_LEAST), high = log(TEMPERATURE_MOST);
    for (int64_t i = 0; i < s->n; i++)
        seizure += (double)s->items[i].seizure;
    if (seizure <= 0 || seizure >= (double)s->n)
        return 1;
    for (int i = 0; i < HALVINGS; i++) { /* of the logarithm of T */
        double middle = (low + high) / 2;
        if (slope(s, exp(-middle)) > 0)
            low = middle;
        else
            high = middle;
    }
    return exp((low + high) / 2);
}

void temperature_seconds_done(struct temperature_seconds *s) { free(s->items); }
