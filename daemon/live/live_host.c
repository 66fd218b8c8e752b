#include "daemon/live/live_host.h"

#include <assert.h>

#include "base/container.h"
#include "daemon/hosts/niceness.h"

/* Steps take milliseconds to seconds. Replays sleep nine tenths of the time while live windows run. */
enum { STALLED_MS = 60 * 1000, REPLAYS_STALLED_MS = 10 * STALLED_MS, LANES_BESIDE_GPU = 8 };
static_assert((int)HOST_WAITS_TEXT >= (int)MODEL_LOADER_TEXT, "the loader's text fits");
static_assert((int)LIVE_MAX_BATCH >= (int)DETECTOR_BATCH_GPU && (int)LIVE_MAX_BATCH >= (int)LIVE_BATCH_GPU, "batches fit");

struct live_host {
    struct live *live;
    struct model_loader *loader;
    struct mailbox *reports;
    int64_t sleeps_ms;
};

static struct message *close_streams(void *state) {
    struct live_host *h = state;
    if (h->loader)
        model_loader_stop(h->loader);
    live_free(h->live);
    model_loader_free(h->loader);
    free(h);
    return NULL;
}

/* To a host of the device; ctx is where its pointer is. */
static bool pass_order(void *ctx, struct live_order *o) { return host_post_wait(*(struct host **)ctx, &o->message); }

/* Returns how many threads take in samples of replays: a CPU device's own; beside a GPU, some of those the container may use. */
static int replay_lanes(const struct device_info *info) {
    if (!info->is_async)
        return info->threads;
    const int cpus = container_processors_here();
    return cpus < LANES_BESIDE_GPU ? cpus : LANES_BESIDE_GPU;
}

static struct live_delay delay_on(const struct device_info *info) {
    return info->is_async ? (struct live_delay){LIVE_MAX_DELAY_MS, LIVE_MAX_DELAY_MS, 0}
                          : (struct live_delay){LIVE_MAX_DELAY_MS, LIVE_MAX_DELAY_STEPS_MS, LIVE_CROWD};
}

static int open_streams(struct host_site *site, bool replays, void **ret, struct err *err) {
    const struct live_host_config *own = site->config;
    const enum dtype precision = !own->automatic ? own->precision : site->info.is_async ? DTYPE_BF16 : DTYPE_F32;
    struct live_host *h = calloc(1, sizeof *h);
    if (!h || !(h->loader = model_loader_new(precision, site->memory_limit_bytes))) {
        free(h);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the streams of %s", site->info.name);
    }
    const struct live_config config = {.device = site->device,
                                       .reports = site->answers[replays ? HOST_REPLAYS : HOST_LIVE],
                                       SAME_MEMBERS(*site, metrics, memory_limit_bytes),
                                       .batch = !site->info.is_async ? LIVE_BATCH_CPU
                                                : replays            ? DETECTOR_BATCH_GPU
                                                                     : LIVE_BATCH_GPU,
                                       .lanes = replays ? replay_lanes(&site->info) : 1,
                                       .batch_steps = site->info.is_async || replays ? 0 : LIVE_BATCH_STEPS,
                                       .delay = replays ? (struct live_delay){0} : delay_on(&site->info),
                                       .may_be_fp32 = own->automatic,
                                       .loader = h->loader,
                                       .post = pass_order,
                                       .post_ctx = &site->hosts[replays ? HOST_REPLAYS : HOST_LIVE],
                                       .priority = replays ? STREAM_NORMAL : STREAM_HIGH,
                                       .serve = replays ? NULL : pass_order,
                                       .serve_ctx = &site->hosts[HOST_REPLAYS],
                                       .viewer = own->viewer};
    if (!(h->live = live_new(&config))) {
        close_streams(h);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the streams of %s", site->info.name);
    }
    h->reports = config.reports;
    h->sleeps_ms = site->info.is_async ? 0 : LIVE_MAX_DELAY_STEPS_MS; /* a GPU begins when its batch is full */
    *ret = h;
    return 0;
}

static int open_live(void *ctx, void **ret, struct err *err) { return open_streams(ctx, false, ret, err); }
static int open_replays(void *ctx, void **ret, struct err *err) { return open_streams(ctx, true, ret, err); }

/* message is the first member of an order and of a report. */
static void order_stream(void *state, struct message *m) { live_order(((struct live_host *)state)->live, (struct live_order *)m); }

/* The reports of a turn, of its orders and its step, wake the loop once. */
static void order_live(void *state, struct message *m) {
    mailbox_cork(((struct live_host *)state)->reports);
    order_stream(state, m);
}
static void drop_report(struct message *m) { live_report_free((struct live_report *)m); }
static bool step_streams(void *state) { return live_step(((struct live_host *)state)->live) != LIVE_IDLE; }

static bool step_live(void *state) {
    struct mailbox *reports = ((struct live_host *)state)->reports;
    mailbox_cork(reports);
    const bool ran = step_streams(state);
    mailbox_uncork(reports);
    return ran;
}

static int64_t sleeps_ms(void *state) { return ((struct live_host *)state)->sleeps_ms; }

static int64_t pause_ms(void *state) { return live_pause_ms(((struct live_host *)state)->live); }

static bool waits_for_file(void *state, char ret_text[HOST_WAITS_TEXT]) {
    return model_loader_waits(((struct live_host *)state)->loader, ret_text);
}

static const struct host_work live_work = {.name = "live",
                                           .niceness = NICENESS_LIVE,
                                           .prompt = true,
                                           .open = open_live,
                                           .order = order_live,
                                           .step = step_live,
                                           .pause_ms = pause_ms,
                                           .sleeps_ms = sleeps_ms,
                                           .close = close_streams,
                                           .waits = waits_for_file};
static const struct host_work replay_work = {.name = "replays",
                                             .niceness = NICENESS_OTHER,
                                             .open = open_replays,
                                             .order = order_stream,
                                             .step = step_streams,
                                             .close = close_streams,
                                             .waits = waits_for_file};

struct host_row live_host_row(const struct live_host_config *config) {
    return (struct host_row){&live_work, STALLED_MS, drop_report, config};
}

struct host_row live_host_replays_row(const struct live_host_config *config) {
    return (struct host_row){&replay_work, REPLAYS_STALLED_MS, drop_report, config};
}
