#include "daemon/device/device_watch.h"

#include "base/base.h"

enum { LABELS = 400 };

struct device_watch {
    struct device_watch_config config;
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock; /* latest, stopping */
    pthread_cond_t woken;
    bool stopping;
    struct device_health latest;
    char gpu[32];              /* label */
    struct device_fault fault; /* written once, before `bad` */
    atomic_bool bad;
};

/* ---- what an answer means ---- */

bool device_watch_judge(const struct device_health *h, struct device_fault *ret) {
    const char *fix = NULL;
    *ret = (struct device_fault){.why = ""};
    if (h->repair_failed == 1) {
        str_copy(ret->why, sizeof ret->why, "some of its memory is bad, and nothing is left to replace it by");
        str_copy(ret->fix, sizeof ret->fix, "replace the device; until then set devices: [cpu] or another device");
        return true;
    }
    if (h->unreachable) {
        str_copy(ret->why, sizeof ret->why, "the driver has lost it: it fell off the bus, or wants a reset");
        fix = "; if it happens again, check its power supply, its slot and the kernel's log";
    } else if (h->ecc_uncorrected > 0) {
        str_format(ret->why, sizeof ret->why, "%lld uncorrectable memory error%s since its last reset",
                   (long long)h->ecc_uncorrected, h->ecc_uncorrected == 1 ? "" : "s");
        fix = "; if it happens again, replace the device";
    } else if (h->repair_pending == 1) {
        str_copy(ret->why, sizeof ret->why, "some of its memory is bad, and is replaced at its next reset");
        fix = "";
    }
    if (!fix)
        return false;
    str_format(ret->fix, sizeof ret->fix, "stop brrd, reset the device (%s) or restart the machine, then start brrd%s",
               *h->reset ? h->reset : "with its driver's tool", fix);
    return true;
}

static void add_figure(struct str *s, const char *name, double value, int digits, const char *unit) {
    if (!isnan(value) && value >= 0)
        str_printf(s, "%s%s%.*f%s", s->len ? ", " : "", name, digits, value, unit);
}

void device_watch_describe(const struct device_health *h, char *ret, size_t size) {
    OWNED(str_done) struct str s = str_of(4096);
    if (h->unreachable)
        str_puts(&s, "unreachable");
    add_figure(&s, "", h->temperature_c, 0, " °C");
    add_figure(&s, "", h->power_w, 0, " W");
    add_figure(&s, "", h->utilization * 100, 0, " % busy");
    add_figure(&s, "", (double)h->memory_used_bytes / 1e9, 1, " GB in use");
    add_figure(&s, "memory errors: ", (double)h->ecc_corrected, 0, " corrected");
    add_figure(&s, "", (double)h->ecc_uncorrected, 0, " uncorrectable");
    const char *before = s.len ? ", clocks held down: " : "clocks held down: ";
    for (int i = 0; h->slowed > 0 && i < DEVICE_SLOWDOWN_COUNT; i++) {
        if (!(h->slowed >> i & 1))
            continue;
        str_printf(&s, "%s%s", before, device_slowdown_name((enum device_slowdown)i));
        before = " ";
    }
    str_copy(ret, size, str_cstr(&s));
}

/* ---- metrics ---- */

/* A series for each value that the device reports. Counters follow the device's own, back to 0 too. */
static void publish(struct device_watch *w, const char *family, const char *label, double value) {
    char labels[LABELS];
    struct metrics *m = w->config.metrics;
    str_format(labels, sizeof labels, "%s%s%s", w->gpu, *label ? "\x1f" : "", label);
    if (isnan(value)) {
        metrics_drop(m, family, labels);
        return;
    }
    struct metric *series = metrics_series(m, family, labels);
    if (series)
        metric_add(series, value - metric_value(series));
}

static double count(int64_t value) { return value < 0 ? NAN : (double)value; }

static void publish_all(struct device_watch *w, const struct device_health *h) {
    char labels[LABELS];
    if (*h->uuid && str_format(labels, sizeof labels, "%s\x1f%s\x1f%s", h->uuid, h->model, h->driver))
        publish(w, "brrd_gpu_info", labels, 1);
    publish(w, "brrd_gpu_temperature_celsius", "", h->temperature_c);
    publish(w, "brrd_gpu_power_watts", "", h->power_w);
    publish(w, "brrd_gpu_energy_joules_total", "", h->energy_j);
    publish(w, "brrd_gpu_utilization_ratio", "", h->utilization);
    publish(w, "brrd_gpu_memory_used_bytes", "", count(h->memory_used_bytes));
    publish(w, "brrd_gpu_memory_total_bytes", "", count(h->memory_total_bytes));
    publish(w, "brrd_gpu_ecc_errors_total", "corrected", count(h->ecc_corrected));
    publish(w, "brrd_gpu_ecc_errors_total", "uncorrectable", count(h->ecc_uncorrected));
    publish(w, "brrd_gpu_memory_repair_pending", "", count(h->repair_pending));
    for (int i = 0; i < DEVICE_SLOWDOWN_COUNT; i++)
        publish(w, "brrd_gpu_clocks_slowed", device_slowdown_name((enum device_slowdown)i),
                h->slowed < 0 ? NAN : (double)(h->slowed >> i & 1));
    for (int i = 0; i < h->error_kinds; i++) {
        char xid[16] = "other";
        if (h->errors[i].xid != DEVICE_ERROR_OTHER)
            str_format(xid, sizeof xid, "%d", h->errors[i].xid);
        publish(w, "brrd_gpu_errors_total", xid, (double)h->errors[i].count);
    }
}

/* ---- the thread ---- */

static void ask(struct device_watch *w) {
    struct device_health h;
    struct device_fault fault;
    w->config.ask(w->config.ctx, &h);
    if (!*w->gpu && h.index >= 0)
        str_format(w->gpu, sizeof w->gpu, "%d", h.index);
    else if (!*w->gpu)
        str_copy(w->gpu, sizeof w->gpu, w->config.device);
    pthread_mutex_lock(&w->lock);
    w->latest = h;
    pthread_mutex_unlock(&w->lock);
    if (!h.reported)
        return;
    publish_all(w, &h);
    if (atomic_load(&w->bad) || !device_watch_judge(&h, &fault))
        return;
    w->fault = fault;
    atomic_store(&w->bad, true);
    if (w->has_thread && w->config.wake)
        w->config.wake(w->config.wake_ctx);
}

/* Waits for the next turn; false to end. */
static bool next_turn(struct device_watch *w) {
    struct timespec at = clock_after_ms(w->config.interval_ms);
    LOCKED(&w->lock);
    while (!w->stopping && pthread_cond_timedwait(&w->woken, &w->lock, &at) == 0)
        ;
    return !w->stopping;
}

static void *watch_main(void *arg) {
    struct device_watch *w = arg;
    while (next_turn(w))
        ask(w);
    return NULL;
}

int device_watch_start(const struct device_watch_config *config, struct device_watch **ret, struct err *err) {
    struct device_watch *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(err, ERR_EXHAUSTED, "out of memory for watching %s", config->device);
    w->config = *config;
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->woken);
    ask(w);
    w->has_thread = w->latest.reported;
    if (w->has_thread && pthread_create(&w->thread, NULL, watch_main, w)) {
        w->has_thread = false;
        device_watch_stop(w);
        return err_set(err, ERR_EXHAUSTED, "cannot start the thread that watches %s", config->device);
    }
    *ret = w;
    return 0;
}

void device_watch_stop(struct device_watch *w) {
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->woken);
    pthread_mutex_unlock(&w->lock);
    if (w->has_thread)
        pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->woken);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void device_watch_latest(struct device_watch *w, struct device_health *ret) {
    LOCKED(&w->lock);
    *ret = w->latest;
}

const struct device_fault *device_watch_fault(const struct device_watch *w) { return w && atomic_load(&w->bad) ? &w->fault : NULL; }

const struct device_fault *device_watch_faults(struct device_watch *const *watches, int n, bool all) {
    const struct device_fault *first = NULL;
    int bad = 0;
    for (int i = 0; i < n; i++) {
        const struct device_fault *fault = device_watch_fault(watches[i]);
        bad += fault != NULL;
        first = first ? first : fault;
    }
    return all && bad < n ? NULL : first;
}
