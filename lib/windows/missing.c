#include "windows/missing.h"

#include "base/counted.h"
#include "eeg/quality.h"

static const float APART_UV = 0.5F;

/* Whether the channel goes its own way, which is soon seen. */
static void look_apart(struct missing_count *count, const float *uv, const float *beside_uv, int64_t n) {
    for (int64_t i = 0; i < n && !count->apart; i++) {
        const float d = uv[i] - beside_uv[i];
        if (!isfinite(d))
            continue;
        count->lowest = count->compared && count->lowest < d ? count->lowest : d;
        count->highest = count->compared && count->highest > d ? count->highest : d;
        count->compared = true;
        count->apart = count->highest - count->lowest >= APART_UV;
    }
}

bool missing_look(struct missing_count *count, const float *uv, const float *beside_uv, int64_t n) {
    const int64_t before = count->n;
    if (beside_uv && !count->apart)
        look_apart(count, uv, beside_uv, n);
    if (n > 0 && count->moves > 1 && quality_finite(uv, n)) { /* nearly always; that it moves is known */
        count->last = uv[n - 1];
        return false;
    }
    for (int64_t i = 0; i < n; i++)
        if (isfinite(uv[i])) {
            count->moves += uv[i] != count->last;
            count->last = uv[i];
        } else {
            count->n++;
        }
    return count->n > before;
}

/* A channel of one value has one move at most, that to its value. */
static void describe_flat(const struct missing_channel *channels, int n, char *text, size_t size) {
    const char *first = NULL;
    const size_t len = strlen(text);
    int flat = 0;
    for (int i = 0; i < n; i++) {
        const bool still = channels[i].count->moves <= 1;
        first = still && !first ? channels[i].name : first;
        flat += still;
    }
    if (flat == n)
        str_format(text + len, size - len, "%sall %s are flat: the same value throughout", len ? "; " : "",
                   counted(n, "channel").text);
    else if (flat)
        str_format(text + len, size - len, "%s%s of %d, %s the first of them, %s flat: the same value throughout", len ? "; " : "",
                   counted(flat, "channel").text, n, first, flat > 1 ? "are" : "is");
}

int missing_describe(const struct missing_channel *channels, int n, int64_t samples, char *text, size_t size, struct err *err) {
    int64_t sum = 0, lacks = 0;
    int some = 0, most = 0;
    for (int i = 0; i < n; i++) {
        const int64_t own = channels[i].count->n;
        sum += own;
        some += own > 0;
        most = own > lacks ? i : most;
        lacks = own > lacks ? own : lacks;
    }
    text[0] = '\0';
    const double percent = samples ? 100.0 * (double)lacks / (double)samples : 0;
    if (sum && 2 * lacks > samples)
        return err_set(
            err, ERR_INVALID,
            "%.0f %% of the samples of %s are no numbers (NaN or infinite); expected at most half: leave the recording out, "
            "or take a model without this channel",
            percent, channels[most].name);
    if (sum)
        str_format(text, size, "%lld samples of %s are no numbers: the last number is held in their place (%s: %.2g %%)",
                   (long long)sum, counted(some, "channel").text, channels[most].name, percent);
    if (n && samples > 1)
        describe_flat(channels, n, text, size);
    int apart = n < 2 || samples < 2;
    for (int i = 0; i < n; i++)
        apart += (i > 0 && channels[i].count->apart) || channels[i].count->moves <= 1;
    if (!apart)
        str_format(text + strlen(text), size - strlen(text),
                   "%sall %s have the same signal: nothing is left between the electrodes", *text ? "; " : "",
                   counted(n, "channel").text);
    return 0;
}
