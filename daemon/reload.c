#include "daemon/reload.h"

struct reload {
    struct reload_file files[RELOAD_MAX_FILES]; /* with texts of its own */
    int n;
    bool watch;
    uint64_t stamps[RELOAD_MAX_FILES]; /* of the files when they were last read; the thread's once it runs */
    struct mailbox *reports;           /* at most one */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t changed;
    bool requested, posting, stopping;
    bool ended;     /* the thread touches nothing any more */
    bool abandoned; /* reload_stop has gone: the thread frees everything */
};

static void release(struct reload *r) {
    for (int i = 0; i < r->n; i++) {
        free((char *)(uintptr_t)r->files[i].path);
        free((char *)(uintptr_t)r->files[i].key);
    }
    mailbox_free(r->reports);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

int reload_new(const struct reload_file *files, int n, bool watch, struct reload **ret, struct err *err) {
    struct reload *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for reading %s", files[0].path);
    r->n = n;
    r->watch = watch;
    pthread_mutex_init(&r->lock, NULL);
    clock_cond_init(&r->changed);
    bool fine = true;
    for (int i = 0; i < n; i++) {
        r->files[i] = files[i];
        r->files[i].path = strdup(files[i].path);
        r->files[i].key = files[i].key ? strdup(files[i].key) : NULL;
        fine = fine && r->files[i].path && (r->files[i].key || !files[i].key);
    }
    if (!fine) {
        release(r);
        return err_set(err, ERR_EXHAUSTED, "out of memory for reading %s", files[0].path);
    }
    *ret = r;
    return 0;
}

/* ---- files ---- */

static void stamp(const struct reload *r, uint64_t ret[RELOAD_MAX_FILES]) {
    for (int i = 0; i < r->n; i++)
        ret[i] = fsio_stamp(r->files[i].path);
}

static int read_file(const struct reload_file *f, char **ret, size_t *ret_len, struct err *err) {
    int rc;
    if ((f->forbidden_rights && (rc = fsio_check_mode(f->path, f->forbidden_rights, err))) ||
        (rc = fsio_read(f->path, f->max_bytes, ret, ret_len, err)))
        return f->key ? err_wrap(err, "%s cannot be used", f->key) : rc;
    return 0;
}

static void wipe(struct reload_report *report) {
    for (int i = 0; i < RELOAD_MAX_FILES; i++) {
        if (report->texts[i])
            explicit_bzero(report->texts[i], report->lengths[i]);
        free(report->texts[i]);
        report->texts[i] = NULL;
    }
}

static void read_files(const struct reload *r, struct reload_report *report) {
    for (int i = 0; i < r->n && !report->rc; i++)
        report->rc = read_file(&r->files[i], &report->texts[i], &report->lengths[i], &report->err);
    if (report->rc)
        wipe(report);
}

void reload_report_free(struct reload_report *report) {
    if (report)
        wipe(report);
    free(report);
}

int reload_now(struct reload *r, struct reload_report **ret, struct err *err) {
    struct reload_report *report = calloc(1, sizeof *report);
    if (!report)
        return err_set(err, ERR_EXHAUSTED, "out of memory for reading %s", r->files[0].path);
    stamp(r, r->stamps); /* before reading: a change meanwhile is seen by the next look */
    read_files(r, report);
    int rc = report->rc;
    if (rc) {
        if (err)
            *err = report->err;
        reload_report_free(report);
        return rc;
    }
    *ret = report;
    return 0;
}

/* ---- the thread ---- */

/* Waits for a request or for the time to look; false to end. */
static bool next_turn(struct reload *r, bool *requested) {
    struct timespec at = clock_after_ms(RELOAD_LOOK_MS);
    LOCKED(&r->lock);
    while (!r->stopping && !r->requested && pthread_cond_timedwait(&r->changed, &r->lock, &at) != ETIMEDOUT) {
    }
    *requested = *requested || r->requested;
    r->requested = false;
    return !r->stopping;
}

static bool set_posting(struct reload *r, bool posting) {
    LOCKED(&r->lock);
    bool on = !r->stopping;
    r->posting = posting && on;
    pthread_cond_broadcast(&r->changed);
    return on;
}

/* The owner may be gone after reload_stop, which waits for a post but not for a file. */
static void deliver(struct reload *r, struct reload_report *report) {
    bool posted = set_posting(r, true) && mailbox_post_wait(r->reports, &report->message, -1);
    set_posting(r, false);
    if (!posted)
        reload_report_free(report);
}

static void *reload_main(void *arg) {
    struct reload *r = arg;
    bool wanted = false;
    while (next_turn(r, &wanted)) {
        uint64_t now[RELOAD_MAX_FILES] = {0};
        if (r->watch || wanted)
            stamp(r, now);
        wanted = wanted || (r->watch && memcmp(now, r->stamps, sizeof now) != 0);
        struct reload_report *report = wanted ? calloc(1, sizeof *report) : NULL;
        if (!report)
            continue; /* if memory is short: at the next turn */
        memcpy(r->stamps, now, sizeof now);
        wanted = false;
        read_files(r, report);
        deliver(r, report);
    }
    pthread_mutex_lock(&r->lock);
    r->ended = true;
    bool abandoned = r->abandoned;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (abandoned)
        release(r);
    return NULL;
}

int reload_start(struct reload *r, mailbox_wake_fn *wake, void *ctx, struct err *err) {
    r->reports = mailbox_new(1, wake, ctx);
    r->started = r->reports && !pthread_create(&r->thread, NULL, reload_main, r);
    return r->started ? 0 : err_set(err, ERR_EXHAUSTED, "cannot start the thread that reads %s again", r->files[0].path);
}

void reload_request(struct reload *r) {
    LOCKED(&r->lock);
    r->requested = true;
    pthread_cond_broadcast(&r->changed);
}

struct reload_report *reload_take(struct reload *r) {
    return (struct reload_report *)mailbox_take(r->reports);
}

/* Waits until the thread has ended; false if its volume does not answer, and the thread frees everything. */
static bool wait_end(struct reload *r) {
    struct timespec until = clock_after_ms(RELOAD_STOP_MS);
    LOCKED(&r->lock);
    r->stopping = true;
    pthread_cond_broadcast(&r->changed);
    while (r->posting) /* the mailbox is closed: this is no matter of a volume */
        pthread_cond_wait(&r->changed, &r->lock);
    while (!r->ended && pthread_cond_timedwait(&r->changed, &r->lock, &until) != ETIMEDOUT) {
    }
    bool ended = r->ended;
    r->abandoned = !ended;
    return ended;
}

void reload_stop(struct reload *r) {
    if (!r)
        return;
    if (r->started) {
        pthread_t thread = r->thread;
        mailbox_close(r->reports);
        reload_report_free(reload_take(r));
        if (!wait_end(r)) {
            pthread_detach(thread);
            return;
        }
        pthread_join(thread, NULL);
    }
    release(r);
}
