#include "daemon/hosts/device_hosts.h"

#include <stdlib.h>

#include "base/niceness.h"
#include "daemon/hosts/host.h"
#include "daemon/live/live_stream.h"

enum { REPORTS_MAX = 4096 };

/* Steps of hosts take milliseconds to seconds. A single op of a large training may take long on a slow CPU. */
/* Replays sleep nine tenths of the time while live windows run. */
enum { HOST_STALLED_MS = 60 * 1000, REPLAYS_STALLED_MS = 10 * HOST_STALLED_MS, CALL_STALLED_MS = 15 * 60 * 1000 };

struct device_hosts {
    struct device_hosts_config config;
    struct device *device;
    struct device_info info;
    struct mailbox *reports, *answers; /* of streams, of networks */
    struct host *live, *replays, *networks;
    struct model_loader *loader; /* of model files, for the hosts */
    struct message *unanswered;  /* orders of networks that their host could not send back */
};

/* ---- the work of each host; ctx is the struct device_hosts ---- */

/* To another host; ctx is where its pointer is. */
static bool pass_order(void *ctx, struct live_order *o) { return host_post_wait(*(struct host **)ctx, &o->message); }

static int open_streams(struct device_hosts *h, bool replays, void **ret, struct err *err) {
    const struct live_config config = {.device = h->device,
                                       .reports = h->reports,
                                       .metrics = h->config.metrics,
                                       .memory_limit_bytes = h->config.memory_limit_bytes,
                                       .batch = !h->info.is_async ? LIVE_BATCH_CPU
                                                : replays         ? DETECTOR_BATCH_GPU
                                                                  : LIVE_BATCH_GPU,
                                       .loader = h->loader,
                                       .post = pass_order,
                                       .post_ctx = replays ? &h->replays : &h->live,
                                       .priority = replays ? STREAM_NORMAL : STREAM_HIGH,
                                       .serve = replays ? NULL : pass_order,
                                       .serve_ctx = &h->replays};
    struct live *live = live_new(&config);
    if (!live)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the streams of %s", h->info.name);
    *ret = live;
    return 0;
}

static int open_live(void *ctx, void **ret, struct err *err) { return open_streams(ctx, false, ret, err); }
static int open_replays(void *ctx, void **ret, struct err *err) { return open_streams(ctx, true, ret, err); }

static int open_networks(void *ctx, void **ret, struct err *err) {
    struct device_hosts *h = ctx;
    const struct networks_config config = {
        .device = h->device,
        .most = h->config.max_networks,
        .most_bytes = h->config.networks_bytes ? h->config.networks_bytes : h->info.total_bytes / 2,
        .answers = h->answers,
        .metrics = h->config.metrics,
    };
    struct networks *networks = networks_new(&config);
    if (!networks)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the networks of %s", h->info.name);
    *ret = networks;
    return 0;
}

/* message is the first member of each order. */
static void order_stream(void *state, struct message *m) { live_order(state, (struct live_order *)m); }
static void order_network(void *state, struct message *m) { networks_order(state, (struct network_order *)m); }

static bool step_streams(void *state) { return live_step(state) != LIVE_IDLE; }
static bool step_networks(void *state) { return networks_step(state); }

static void close_streams(void *state, void *ctx) {
    (void)ctx;
    live_free(state);
}

static void close_networks(void *state, void *ctx) { networks_free(state, &((struct device_hosts *)ctx)->unanswered); }

static const struct host_work live_work = {.name = "live",
                                           .niceness = NICENESS_LIVE,
                                           .prompt = true,
                                           .open = open_live,
                                           .order = order_stream,
                                           .step = step_streams,
                                           .close = close_streams};
static const struct host_work replay_work = {.name = "replays",
                                             .niceness = NICENESS_OTHER,
                                             .open = open_replays,
                                             .order = order_stream,
                                             .step = step_streams,
                                             .close = close_streams};
static const struct host_work network_work = {.name = "networks",
                                              .niceness = NICENESS_NETWORKS,
                                              .open = open_networks,
                                              .order = order_network,
                                              .step = step_networks,
                                              .close = close_networks};

/* ---- life ---- */

static int start(struct device_hosts *h, struct err *err) {
    int rc = device_open_share(h->config.device, h->config.threads, h->config.shares, &h->device, err);
    if (rc)
        return rc;
    device_describe(h->device, &h->info);
    if (!h->config.memory_limit_bytes)
        h->config.memory_limit_bytes = h->info.total_bytes / 10 * 9;
    h->reports = mailbox_new(REPORTS_MAX, h->config.wake, h->config.wake_ctx);
    h->answers = mailbox_new(REPORTS_MAX, h->config.wake, h->config.wake_ctx);
    h->loader = model_loader_new(h->config.precision, h->config.memory_limit_bytes);
    if (!h->reports || !h->answers || !h->loader)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the threads of %s", h->info.name);
    if ((rc = host_start(&replay_work, h, &h->replays, err)))
        return rc;
    if ((rc = host_start(&live_work, h, &h->live, err)))
        return rc;
    return host_start(&network_work, h, &h->networks, err);
}

int device_hosts_start(const struct device_hosts_config *config, struct device_hosts **ret, struct err *err) {
    struct device_hosts *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the device");
    h->config = *config;
    int rc = start(h, err);
    if (rc) {
        device_hosts_stop(h);
        return rc;
    }
    *ret = h;
    return 0;
}

/* Nobody takes any more: posts to a closed mailbox fail at once. */
static void close_box(struct mailbox *box) {
    if (box)
        mailbox_close(box);
}

static void send_back(struct device_hosts *h) {
    for (struct live_report *r; h->reports && (r = device_hosts_take_stream(h));)
        live_report_free(r);
    for (struct network_order *o; h->answers && (o = device_hosts_take_network(h));)
        o->done(o);
    while (h->unanswered) {
        struct network_order *o = (struct network_order *)h->unanswered;
        h->unanswered = h->unanswered->next;
        o->done(o);
    }
}

void device_hosts_stop(struct device_hosts *h) {
    if (!h)
        return;
    close_box(h->reports);
    close_box(h->answers);
    if (h->loader)
        model_loader_stop(h->loader);
    host_stop(h->live);
    host_stop(h->replays); /* to which the host of live windows posts */
    host_stop(h->networks);
    model_loader_free(h->loader);
    send_back(h);
    mailbox_free(h->reports);
    mailbox_free(h->answers);
    device_close(h->device);
    free(h);
}

/* ---- the device ---- */

struct device *device_hosts_device(const struct device_hosts *h) {
    return h->device;
}
void device_hosts_describe(const struct device_hosts *h, struct device_info *ret) { *ret = h->info; }
int64_t device_hosts_memory_limit(const struct device_hosts *h) { return h->config.memory_limit_bytes; }
bool device_hosts_lost(const struct device_hosts *h) { return device_lost(h->device); }
void device_hosts_health(const struct device_hosts *h, struct device_health *ret) { device_health(h->device, ret); }

bool device_hosts_stalled(const struct device_hosts *h) {
    return device_busy_ms(h->device) > CALL_STALLED_MS || host_busy_ms(h->live) > HOST_STALLED_MS ||
           host_busy_ms(h->replays) > REPLAYS_STALLED_MS || host_busy_ms(h->networks) > HOST_STALLED_MS;
}

bool device_hosts_waits(const struct device_hosts *h, char ret_text[MODEL_LOADER_TEXT]) {
    return model_loader_waits(h->loader, ret_text);
}

/* ---- orders ---- */

bool device_hosts_post_stream(struct device_hosts *h, struct live_order *o) {
    bool replay = o->stream && !live_stream_open(o->stream)->realtime;
    return host_post(replay ? h->replays : h->live, &o->message);
}

struct live_report *device_hosts_take_stream(struct device_hosts *h) {
    return (struct live_report *)mailbox_take(h->reports);
}

bool device_hosts_post_network(struct device_hosts *h, struct network_order *o) { return host_post(h->networks, &o->message); }

struct network_order *device_hosts_take_network(struct device_hosts *h) {
    return (struct network_order *)mailbox_take(h->answers);
}
