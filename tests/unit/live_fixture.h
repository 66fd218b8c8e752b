/* live_fixture: a small model with live streams, the loader of its files, and the streams' owner that counts reports. */
#pragma once

#include "base/base.h"
#include "daemon/live/live.h"
#include "daemon/live/live_stream.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"
#include "unit/model_fixture.h"

/* Streams of three channels at 256 Hz under a small model, on BRR_TEST_DEVICE or the CPU. */
enum {
    CHANNELS = MODEL_CHANNELS,
    RATE = FRONTEND_RATE_HZ,
    WINDOW = MODEL_WINDOW,
    HOP = MODEL_HOP,
    SECONDS = 20,
    SAMPLES = SECONDS * RATE,
    BOX = 4096
};

static const char *const labels[] = {"Fp1", "F3", "C3"};

struct bench {
    char folder[256], path[512];
    struct device *device;
    struct stream *queue;
    struct mailbox *reports, *prepared, *passed; /* passed: to the host of replays */
    struct model_loader *loader;
    struct live *live;
    int batch;                   /* of live; 0: the default */
    int lanes;                   /* of live */
    int64_t max_delay_ms;        /* of live */
    int least_streams;           /* that wait for one another */
    bool automatic;              /* bf16, where the bound of a model allows it */
    float x[CHANNELS * SAMPLES]; /* channel-major */
};

static inline bool post_prepared(void *box, struct live_order *o) { return mailbox_post_wait(box, &o->message, -1); }

static inline struct live *live_of(struct bench *b, int64_t memory_limit_bytes) {
    b->loader = model_loader_new(b->automatic ? DTYPE_BF16 : DTYPE_F32, memory_limit_bytes);
    b->passed = b->passed ? b->passed : mailbox_new(BOX, NULL, NULL);
    return live_new(&(struct live_config){.device = b->device,
                                          .reports = b->reports,
                                          .memory_limit_bytes = memory_limit_bytes,
                                          .batch = b->batch,
                                          .lanes = b->lanes,
                                          .viewer = {.samples = SAMPLES, .max_bytes = 1 << 24},
                                          .delay = {b->max_delay_ms, b->max_delay_ms, b->least_streams},
                                          .may_be_fp32 = b->automatic,
                                          .loader = b->loader,
                                          .post = post_prepared,
                                          .post_ctx = b->prepared,
                                          .priority = STREAM_HIGH,
                                          .serve = post_prepared,
                                          .serve_ctx = b->passed});
}

static inline void close_live(struct bench *b) {
    model_loader_stop(b->loader);
    live_free(b->live);
    model_loader_free(b->loader);
}

static inline int set_up(void **state) {
    struct bench *b = calloc(1, sizeof *b);
    *state = b;
    fixture_folder(b->folder, sizeof b->folder);
    snprintf(b->path, sizeof b->path, "%s/model.safetensors", b->folder);
    for (int c = 0; c < CHANNELS; c++)
        for (int64_t i = 0; i < SAMPLES; i++)
            b->x[c * SAMPLES + i] = (float)fixture_sample(c, i, RATE);
    const char *device = getenv("BRR_TEST_DEVICE");
    if (device_open(device ? device : "cpu", 0, &b->device, NULL) || stream_open(b->device, STREAM_NORMAL, &b->queue, NULL) ||
        fixture_model(b->device, b->queue, b->path))
        return -1;
    b->reports = mailbox_new(BOX, NULL, NULL);
    b->prepared = mailbox_new(BOX, NULL, NULL);
    b->live = live_of(b, 0);
    return b->live ? 0 : -1;
}

static inline struct live_report *next(struct bench *b) { return (struct live_report *)mailbox_take(b->reports); }

static inline int tear_down(void **state) {
    struct bench *b = *state;
    close_live(b);
    for (struct live_report *r; (r = next(b));)
        live_report_free(r);
    for (struct message *m; (m = mailbox_take(b->prepared));)
        live_order_free((struct live_order *)m);
    mailbox_free(b->reports);
    for (struct message *m; (m = mailbox_take(b->passed));)
        live_order_free((struct live_order *)m);
    mailbox_free(b->prepared);
    mailbox_free(b->passed);
    stream_close(b->queue);
    device_close(b->device);
    fixture_remove(b->folder);
    free(b);
    return 0;
}

/* ---- one stream as its owner sees it ---- */

struct heard {
    struct live_stream *stream;
    int64_t at, windows, consumed, alarm_hop, bytes;
    float p[SAMPLES]; /* the first of them, gaps left out */
    bool has_eeg;
    int results, gaps, provisional, opened, summaries, failures, closed;
    int64_t gap_samples, gap_first;
    struct err err;
};

static inline void hear_result(struct heard *h, const struct live_report *r) {
    assert_int_equal(r->first, h->at);
    h->at += r->samples;
    h->results += !r->gap;
    h->gaps += r->gap;
    if (r->gap) {
        h->gap_first = r->first;
        h->gap_samples += r->samples;
        assert_null(r->p);
    } else if (r->samples) {
        assert_non_null(r->p); /* open_stream asks for them */
    }
    if (r->p && r->first - h->gap_samples + r->samples <= SAMPLES) {
        memcpy(h->p + r->first - h->gap_samples, r->p, (size_t)r->samples * sizeof *r->p);
    }
}

/* Take what was reported to the streams of `who`. */
static inline void listen(struct bench *b, struct heard *const *who, int n) {
    for (struct live_report *r; (r = next(b)); live_report_free(r)) {
        int i = 0;
        while (i < n && who[i]->stream != r->stream)
            i++;
        if (i == n)
            continue; /* of a model */
        struct heard *h = who[i];
        assert_false(h->closed);
        h->bytes += r->bytes;
        switch ((enum live_report_kind)r->message.kind) {
        case LIVE_OPENED:
            h->opened++;
            h->alarm_hop = r->opened->alarm_hop;
            h->has_eeg = r->eeg != NULL;
            break;
        case LIVE_CONSUMED:
            h->consumed += r->samples;
            break;
        case LIVE_RESULT:
            hear_result(h, r);
            break;
        case LIVE_PROVISIONAL:
            h->provisional++;
            break;
        case LIVE_SUMMARY:
            h->summaries++;
            h->windows = r->windows;
            assert_int_equal(r->samples, h->at);
            break;
        case LIVE_FAILED:
            h->failures++;
            h->err = r->err;
            break;
        case LIVE_CLOSED:
            h->closed++;
            break;
        default:
            break;
        }
    }
}

static inline void order(struct bench *b, enum live_order_kind kind, struct live_stream *stream) {
    live_order(b->live, live_order_new(kind, stream));
}

/* The next model file that was read. */
static inline void hear_loader(struct bench *b) { live_order(b->live, (struct live_order *)mailbox_wait(b->prepared, -1)); }

/* OPEN or LOAD, until it is answered. */
static inline void order_model(struct bench *b, struct live_order *o) {
    size_t before = mailbox_count(b->reports);
    live_order(b->live, o);
    while (mailbox_count(b->reports) == before)
        hear_loader(b);
}

static inline void open_stream(struct bench *b, struct heard *h, const struct live_open *changes) {
    struct live_open open = {.checkpoint = b->path,
                             .model = "m",
                             .labels = labels,
                             .n_labels = CHANNELS,
                             .rate_hz = RATE,
                             .format = LIVE_F32_UV,
                             .alarm_hop_s = -1}; /* the trace is made whether or not the client wants it: others may observe */
    if (changes) {
        open.checkpoint = changes->checkpoint ? changes->checkpoint : open.checkpoint;
        open.realtime = changes->realtime;
        open.format = changes->format;
        open.scale_uv = changes->scale_uv;
        open.alarm_hop_s = changes->alarm_hop_s;
        open.owner = changes->owner;
    }
    *h = (struct heard){.stream = live_stream_new(&open, h)};
    assert_non_null(h->stream);
    order_model(b, live_order_new(LIVE_OPEN, h->stream));
}

/* Samples [first, end) of the signal; skip of them are known already. */
static inline struct live_order *chunk(const struct bench *b, struct live_stream *stream, int64_t first, int64_t end,
                                       int64_t skip) {
    struct live_order *o = live_order_new(LIVE_CHUNK, stream);
    int64_t n = end - first;
    o->data_bytes = n * CHANNELS * (int64_t)sizeof(float);
    o->data = malloc((size_t)o->data_bytes);
    for (int c = 0; c < CHANNELS; c++)
        memcpy(o->data + c * n * 4, b->x + c * SAMPLES + first, (size_t)n * sizeof(float));
    o->samples = n;
    o->skip = skip;
    return o;
}

static inline void gap(struct bench *b, struct live_stream *stream, int64_t missing) {
    struct live_order *o = live_order_new(LIVE_GAP, stream);
    o->samples = missing;
    live_order(b->live, o);
}

static inline void run(struct bench *b) {
    while (live_step(b->live) != LIVE_IDLE)
        ;
}

static inline void close_stream(struct bench *b, struct heard *h) {
    order(b, LIVE_CLOSE, h->stream);
    listen(b, &h, 1);
    assert_int_equal(h->closed, 1);
    live_stream_free(h->stream);
}

/* The whole signal in one chunk, to the summary. */
static inline void whole(struct bench *b, struct heard *h) {
    open_stream(b, h, NULL);
    live_order(b->live, chunk(b, h->stream, 0, SAMPLES, 0));
    order(b, LIVE_FINISH, h->stream);
    run(b);
    listen(b, &h, 1);
    assert_int_equal(h->summaries, 1);
    assert_int_equal(h->at, SAMPLES);
}
