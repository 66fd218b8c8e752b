#include "daemon/hosts/device_hosts.h"

/* A single op of a large training may take long on a slow CPU. */
enum { ANSWERS_MAX = 4096, CALL_STALLED_MS = 15 * 60 * 1000 };

struct device_hosts {
    struct device_hosts_config config;
    struct host_site sites[HOST_KINDS]; /* the same but for config */
};

/* ---- life ---- */

static int start_host(struct device_hosts *h, enum host_kind kind, struct err *err) {
    struct host *host = NULL;
    int rc = host_start(h->config.rows[kind].work, &h->sites[kind], &host, err);
    for (int i = 0; !rc && i < HOST_KINDS; i++)
        h->sites[i].hosts[kind] = host;
    return rc;
}

static int start(struct device_hosts *h, struct err *err) {
    struct host_site site = {.memory_limit_bytes = h->config.memory_limit_bytes, .metrics = h->config.metrics};
    int rc = device_open_share(h->config.device, h->config.threads, h->config.shares, &site.device, err);
    if (rc)
        return rc;
    device_describe(site.device, &site.info);
    if (!site.memory_limit_bytes)
        site.memory_limit_bytes = site.info.total_bytes / 10 * 9;
    bool enough = true;
    for (int i = 0; i < HOST_KINDS; i++)
        enough = (site.answers[i] = mailbox_new(ANSWERS_MAX, h->config.wake, h->config.wake_ctx)) && enough;
    for (int i = 0; i < HOST_KINDS; i++) {
        h->sites[i] = site;
        h->sites[i].config = h->config.rows[i].config;
    }
    if (!enough)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the threads of %s", site.info.name);
    for (int i = 0; !rc && i < HOST_KINDS; i++)
        if (h->config.rows[i].work)
            rc = start_host(h, (enum host_kind)i, err);
    return rc;
}

int device_hosts_start(const struct device_hosts_config *config, struct device_hosts **ret, struct err *err) {
    struct device_hosts *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the device");
    h->config = *config;
    int rc = start(h, err);
    return GIVEN(ret, h, device_hosts_stop, rc);
}

void device_hosts_stop(struct device_hosts *h) {
    if (!h)
        return;
    struct host_site *site = &h->sites[0];
    struct message *left[HOST_KINDS];
    for (int i = 0; i < HOST_KINDS; i++)
        if (site->answers[i])
            mailbox_close(site->answers[i]); /* nobody takes any more: posts fail at once */
    for (int i = 0; i < HOST_KINDS; i++)
        left[i] = host_stop(site->hosts[i]);
    memset(site->hosts, 0, sizeof site->hosts); /* an order that is dropped may be followed by another one */
    for (int i = 0; i < HOST_KINDS; i++) {
        for (struct message *m; site->answers[i] && (m = mailbox_take(site->answers[i]));)
            h->config.rows[i].drop(m);
        for (struct message *m = left[i], *next; m; m = next) {
            next = m->next;
            h->config.rows[i].drop(m);
        }
        mailbox_free(site->answers[i]);
    }
    device_close(site->device);
    free(h);
}

/* ---- the device ---- */

struct device *device_hosts_device(const struct device_hosts *h) {
    return h->sites[0].device;
}
void device_hosts_describe(const struct device_hosts *h, struct device_info *ret) { *ret = h->sites[0].info; }
int64_t device_hosts_memory_limit(const struct device_hosts *h) { return h->sites[0].memory_limit_bytes; }
bool device_hosts_lost(const struct device_hosts *h) { return device_lost(h->sites[0].device); }
void device_hosts_health(const struct device_hosts *h, struct device_health *ret) { device_health(h->sites[0].device, ret); }

bool device_hosts_stalled(const struct device_hosts *h) {
    bool stalled = device_busy_ms(h->sites[0].device) > CALL_STALLED_MS;
    for (int i = 0; i < HOST_KINDS; i++)
        stalled = stalled || (h->sites[i].hosts[i] && host_busy_ms(h->sites[i].hosts[i]) > h->config.rows[i].stalled_ms);
    return stalled;
}

bool device_hosts_waits(const struct device_hosts *h, char ret_text[HOST_WAITS_TEXT]) {
    for (int i = 0; i < HOST_KINDS; i++)
        if (h->sites[i].hosts[i] && host_waits(h->sites[i].hosts[i], ret_text))
            return true;
    return false;
}

/* ---- orders ---- */

bool device_hosts_post(struct device_hosts *h, enum host_kind kind, struct message *order) {
    return h->sites[0].hosts[kind] && host_post(h->sites[0].hosts[kind], order);
}

struct message *device_hosts_take(struct device_hosts *h, enum host_kind kind) {
    return mailbox_take(h->sites[kind].answers[kind]);
}
