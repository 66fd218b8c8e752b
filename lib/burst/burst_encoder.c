#include "burst/burst_encoder.h"

#include "base/grow.h"
#include "burst/burst.h"
#include "eeg/half.h"
#include "windows/recording.h"
#include "windows/window.h"

struct encoder {
    const struct burst_config *config;
    const char *path;
    struct recording *recording;
    struct recording_info info;
    float level[FRONTEND_MAX_CHANNELS];
    int64_t crossings[2 * FRONTEND_MAX_CHANNELS]; /* in this tick, by neuron */
    struct burst_injection *list;
    int64_t n, room;
};

static int add(struct encoder *e, const struct burst_injection *injection, struct err *err) {
    if (!GROW(e->list, e->n, e->room))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for %lld injections", e->path, (long long)e->room);
    if (e->n == BURST_MOST_PENDING)
        return err_set(err, ERR_EXHAUSTED, "%s: more than %d injections; give a larger input.delta_uv or fewer ticks", e->path,
                       BURST_MOST_PENDING);
    e->list[e->n++] = *injection;
    return 0;
}

static int end_tick(struct encoder *e, int64_t tick, struct err *err) {
    int rc = 0;
    for (int k = 0; !rc && k < 2 * e->info.channels; k++) {
        const struct burst_injection injection = {(uint64_t)tick, (uint32_t)k,
                                                  (float)((double)e->crossings[k] * e->config->potential)};
        if (e->crossings[k])
            rc = add(e, &injection, err);
        e->crossings[k] = 0;
    }
    return rc;
}

/* One row of samples: the level follows the signal in whole steps. */
static void cross(struct encoder *e, const uint16_t *row) {
    float delta = (float)e->config->delta_uv;
    for (int c = 0; c < e->info.channels; c++) {
        float x = half_to_f32(row[c]);
        while (x >= e->level[c] + delta) {
            e->level[c] += delta;
            e->crossings[2 * c]++;
        }
        while (x <= e->level[c] - delta) {
            e->level[c] -= delta;
            e->crossings[2 * c + 1]++;
        }
    }
}

static int encode_segment(struct encoder *e, int segment, struct err *err) {
    const struct window_span *span = &e->info.segments[segment];
    int64_t per_tick = e->config->samples_per_tick, end = e->config->ticks * per_tick;
    int rc = 0;
    end = span->end < end ? span->end : end;
    for (int64_t at = span->first; at < end; at++) {
        const uint16_t *row = recording_rows(e->recording, segment, at);
        for (int c = 0; at == span->first && c < e->info.channels; c++)
            e->level[c] = half_to_f32(row[c]);
        cross(e, row);
        if (((at + 1) % per_tick == 0 || at + 1 == end) && (rc = end_tick(e, at / per_tick + 1, err)))
            return rc;
    }
    return 0;
}

int burst_encoder_read(const struct burst_config *config, const struct task_env *env, struct burst_injection **ret, int64_t *ret_n,
                       int *ret_channels, struct err *err) {
    const struct window_build build = {
        .recording_path = config->recording,
        SAME_MEMBERS(*env, cache_dir, cache),
        .frontend = {.montage = config->montage, .notch_hz = config->notch_hz, .bandpass_hz = {0.5, 120}, .fill_gap_s = 2},
        .labels = "auto",
        .unlabeled = "background"};
    struct encoder e = {.config = config, .path = config->recording};
    bool skipped = false;
    int rc = window_plan(&build, &e.recording, &skipped, err);
    if (rc)
        return rc;
    if ((rc = recording_load(e.recording, err)))
        err_wrap(err, "%s", fsio_basename(config->recording));
    else
        recording_info(e.recording, &e.info);
    for (int s = 0; !rc && s < e.info.n_segments; s++)
        rc = encode_segment(&e, s, err);
    recording_close(e.recording);
    if (rc) {
        free(e.list);
        return rc;
    }
    *ret = e.list;
    *ret_n = e.n;
    *ret_channels = e.info.channels;
    return 0;
}
