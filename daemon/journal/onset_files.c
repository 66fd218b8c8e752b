#include "daemon/journal/onset_files.h"

#include "base/grow.h"
#include "base/log.h"
#include "base/order.h"
#include "base/principal.h"
#include "base/trusted_time.h"

enum {
    NAME = 128,
    MINUTE_MS = 60 * 1000,
    SPARE_BYTES = 32 << 20 /* of the volume, for the journal and whoever else writes there */
};

/* ---- the folder ---- */

static const char ending[] = ".edf";

/* "1764562000123-1f2e3d4c-5b6a7980-SESSION-SAMPLE.edf", so that names sort by time and say whose file it is. */
static void onset_name(const struct onset_file *f, char ret[NAME]) {
    str_format(ret, NAME, "%013lld-%08x-%08x-%s%s", (long long)f->wall_ms, f->owner, f->bed, f->alarm, ending);
}

static bool onset_is_plain(const char *alarm) { return !alarm[strspn(alarm, "0123456789abcdef-")]; }

static bool read_name(const char *name, struct onset_file *ret) {
    char again[NAME];
    const size_t n = strlen(name), head = 13 + 1 + 8 + 1 + 8 + 1, tail = sizeof ending - 1;
    if (n <= head + tail || n - head - tail >= sizeof ret->alarm)
        return false;
    ret->wall_ms = strtoll(name, NULL, 10);
    ret->owner = (uint32_t)strtoul(name + 14, NULL, 16);
    ret->bed = (uint32_t)strtoul(name + 23, NULL, 16);
    str_format(ret->alarm, sizeof ret->alarm, "%.*s", (int)(n - head - tail), name + head);
    onset_name(ret, again);
    return !strcmp(name, again) && onset_is_plain(ret->alarm);
}

static uint32_t hash(const char *text, size_t n) { /* FNV-1a */
    uint32_t sum = 2166136261U;
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ (unsigned char)text[i]) * 16777619U;
    return sum;
}

bool onset_file_of(const struct journal_entry *e, int64_t sample, struct onset_file *ret) {
    *ret = (struct onset_file){.wall_ms = e->received_ms,
                               .owner = hash(e->principal, principal_length(e->principal)),
                               .bed = hash(e->client, strlen(e->client))};
    journal_alarm_id(e->session, sample, ret->alarm);
    return onset_is_plain(ret->alarm);
}

struct listing {
    struct onset_files *files;
    const char *alarm;
};

static int list_onset_file(void *ctx, const char *path, int64_t bytes, struct err *err) {
    struct listing *l = ctx;
    struct onset_file f = {.bytes = bytes};
    if (!read_name(path, &f) || (l->alarm && strcmp(f.alarm, l->alarm) != 0))
        return 0;
    if (!GROW(l->files->list, l->files->n, l->files->room))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the list of files");
    l->files->list[l->files->n++] = f;
    return 0;
}

void onset_files_done(struct onset_files *files) {
    free(files->list);
    *files = (struct onset_files){0};
}

int onsets_list(const char *results, const char *alarm, struct onset_files *ret, struct err *err) {
    struct listing l = {ret, alarm};
    char folder[ONSETS_PATH];
    *ret = (struct onset_files){0};
    int rc = fsio_join(folder, sizeof folder, results, ONSETS_FOLDER, err);
    if (rc || !fsio_is_dir(folder))
        return rc;
    if ((rc = fsio_walk(folder, list_onset_file, &l, err)))
        onset_files_done(ret);
    return rc;
}

int onset_path(const char *results, const struct onset_file *file, char ret[ONSETS_PATH], struct err *err) {
    char name[NAME + sizeof ONSETS_FOLDER] = ONSETS_FOLDER "/";
    onset_name(file, name + sizeof ONSETS_FOLDER);
    return fsio_join(ret, ONSETS_PATH, results, name, err);
}

/* ---- which goes ---- */

void onset_folder_count(const struct onset_folder *o, const char *result) {
    if (o->metrics)
        metric_add(metrics_series(o->metrics, "brrd_onsets_total", result), 1);
}

ORDER_BY(by_bed, struct onset_file,
         order_then(order_i64(x->owner, y->owner), order_then(order_i64(x->bed, y->bed), order_i64(x->wall_ms, y->wall_ms))))

/* Files [first, end) of a list in the order of by_bed, and the time of the oldest one. */
struct run {
    int first, end;
    int64_t oldest_ms;
};

/* The files of the caller who has most in this run, or, with `beds`, of the bed that has most. Of equals it is the one with the
 * oldest file. */
static struct run fullest(const struct onset_file *f, struct run in, bool beds) {
    struct run best = {0};
    for (int i = in.first, k; i < in.end; i = k) {
        struct run run = {i, i, f[i].wall_ms};
        for (k = i; k < in.end && f[k].owner == f[i].owner && (!beds || f[k].bed == f[i].bed); run.end = ++k)
            run.oldest_ms = f[k].wall_ms < run.oldest_ms ? f[k].wall_ms : run.oldest_ms;
        const int more = (run.end - run.first) - (best.end - best.first);
        best = more > 0 || (!more && run.oldest_ms < best.oldest_ms) ? run : best;
    }
    return best;
}

static int remove_file(struct onset_folder *o, struct onset_files *files, int i, const char *result, struct err *err) {
    char path[ONSETS_PATH];
    int rc = onset_path(o->results, &files->list[i], path, err);
    if (rc || (rc = fsio_remove(path, err)))
        return rc;
    memmove(&files->list[i], &files->list[i + 1], (size_t)(--files->n - i) * sizeof *files->list);
    onset_folder_count(o, result);
    return 0;
}

/* Room for this file, which is not in the list yet. */
static int make_room_for(struct onset_folder *o, struct onset_files *files, const struct onset_file *file, struct err *err) {
    int64_t bytes = 0;
    int rc = 0;
    if (!GROW(files->list, files->n, files->room))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the list of files");
    files->list[files->n] = *file;
    files->list[files->n++].wall_ms = INT64_MAX; /* it goes after all others */
    for (int i = 0; i < files->n; i++)
        bytes += files->list[i].bytes;
    SORT(files->list, files->n, by_bed);
    while (!rc && bytes > o->max_bytes && files->n > 1) {
        const struct run all = {0, files->n, 0};
        const int i = fullest(files->list, fullest(files->list, all, false), true).first;
        bytes -= files->list[i].bytes;
        rc = remove_file(o, files, i, "removed", err);
    }
    return rc;
}

void onset_folder_prune(struct onset_folder *o) {
    OWNED(onset_files_done) struct onset_files files = {0};
    const int64_t now = clock_ms(), before = clock_wall_ms() - o->keep_ms;
    struct err err = {0};
    char text[800];
    if (o->keep_ms < 0 || (o->pruned_ms && now - o->pruned_ms < MINUTE_MS))
        return;
    o->pruned_ms = now;
    if (!trusted_time_look(&o->time, trusted_boot_ms(), clock_wall_ms(), o->keep_ms))
        return;
    int rc = onsets_list(o->results, NULL, &files, &err);
    while (!rc && files.n && files.list[0].wall_ms < before)
        rc = remove_file(o, &files, 0, "age", &err);
    if (rc)
        log_warn("old EEG of alarms stays", "error=\"%s\"", err_text(&err, text, sizeof text));
}

static int put_file(const char *path, const struct str *edf, struct err *err) {
    struct fsio_writer w;
    int rc = fsio_writer_open(&w, path, err);
    if (rc)
        return rc;
    rc = fchmod(w.fd, 0600) ? err_errno(err, errno, "%s: cannot be closed to other users", path)
                            : fsio_writer_write(&w, edf->data, edf->len, err);
    if (rc) {
        fsio_writer_abort(&w);
        return rc;
    }
    return fsio_writer_commit(&w, err);
}

int onset_folder_put(struct onset_folder *o, struct onset_file *file, const struct str *edf, struct err *err) {
    OWNED(onset_files_done) struct onset_files files = {0};
    char path[ONSETS_PATH];
    int rc = onsets_list(o->results, NULL, &files, err), known = 0;
    if (rc)
        return rc;
    while (known < files.n && strcmp(files.list[known].alarm, file->alarm) != 0)
        known++;
    const bool there = known < files.n;
    if (!there && file->bytes) /* it went for newer ones */
        return 0;
    if (there && (int64_t)edf->len <= files.list[known].bytes)
        return 0;
    if (!edf->len)
        return err_set(err, ERR_NOT_FOUND, "the stream has no EEG of that time any more");
    const int64_t free_bytes = fsio_free_bytes(o->results), bytes = (int64_t)edf->len;
    if (free_bytes >= 0 && free_bytes < bytes + SPARE_BYTES)
        return err_set(err, ERR_EXHAUSTED, "the volume of %.300s has %lld bytes left", o->results, (long long)free_bytes);
    struct onset_file fresh = there ? files.list[known] : *file; /* its name stays */
    if (there)
        files.list[known] = files.list[--files.n];
    fresh.bytes = bytes;
    if ((rc = make_room_for(o, &files, &fresh, err)) || (rc = onset_path(o->results, &fresh, path, err)) ||
        (rc = put_file(path, edf, err)))
        return rc;
    if (!there)
        onset_folder_count(o, "kept");
    *file = fresh;
    return 0;
}
